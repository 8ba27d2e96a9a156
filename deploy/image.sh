#!/bin/sh
# Builds the container image from the wheel in dist: `make image`. Needs mmdebstrap and buildah (Debian packages); no base image
# is fetched, no engine has to run. As root, or as anybody for whom rootless buildah is set up.
#   PYTHON          with pip, as it is configured on this machine; default python3
#   DEBIAN_MIRROR   where Debian's packages come from, such as a snapshot of a day; default: Debian's own
#   SOURCE_DATE_EPOCH   the moment that every file is of; default: the last commit's
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3} here=build/image suite=bookworm
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' src/saibot/__init__.py)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 1700000000)}
export SOURCE_DATE_EPOCH

for tool in mmdebstrap buildah; do
  command -v $tool >/dev/null || { echo "This needs $tool. On Debian: apt-get install mmdebstrap buildah"; exit 1; }
done
[ -f "dist/saibot-$version-py3-none-any.whl" ] || { echo "There is no wheel of $version in dist: make dist"; exit 1; }
mkdir -p $here

echo "Fetching the packages of deploy/hashes.txt ..."
rm -rf $here/wheels
$python -m pip --disable-pip-version-check download -qq --no-deps --only-binary :all: --require-hashes -r deploy/hashes.txt \
  --dest $here/wheels --python-version 3.11 --implementation cp \
  $(for minor in $(seq 36 -1 5); do echo --platform "manylinux_2_${minor}_$(uname -m)"; done) --platform "manylinux2014_$(uname -m)"
cp "dist/saibot-$version-py3-none-any.whl" $here/wheels/
cp deploy/hashes.txt deploy/sbom.py $here/

echo "Making a Debian $suite with Python and nothing else ..."
mmdebstrap --variant=essential --include=python3,ca-certificates,libstdc++6,tzdata,usr-is-merged \
  --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr --aptopt='Apt::Install-Recommends "false"' \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/info/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
  --customize-hook='chroot "$1" find / -xdev -type f -perm /6000 -exec chmod a-s {} +' \
  --customize-hook='rm -rf "$1"/etc/apt/sources.list* "$1"/etc/resolv.conf "$1"/etc/hostname "$1"/var/log/* "$1"/var/cache/*' \
  $suite $here/root.tar ${DEBIAN_MIRROR:-} </dev/null >$here/debian.log 2>&1 || { tail -20 $here/debian.log; exit 1; }

echo "Building saibot:$version ..."
buildah build --quiet --isolation "${BUILDAH_ISOLATION:-chroot}" --format docker --timestamp "$SOURCE_DATE_EPOCH" \
  --no-cache --build-arg VERSION="$version" -f deploy/Containerfile -t "saibot:$version" -t saibot:latest $here
# The same Debian, pins and commit give the same layers; the list is there to be compared. Only buildah's notes beside them differ.
buildah inspect --type image --format '{{range .OCIv1.RootFS.DiffIDs}}{{println .}}{{end}}' "saibot:$version" >$here/layers.txt
rm -f $here/saibot.tar
buildah push --quiet "saibot:$version" "docker-archive:$here/saibot.tar:localhost/saibot:latest" >/dev/null
gzip -n -f $here/saibot.tar
mv $here/saibot.tar.gz "$here/saibot-$version.tar.gz"
echo "wrote $here/saibot-$version.tar.gz: $(($(stat -c %s "$here/saibot-$version.tar.gz") / 1000000)) MB; \`podman load -i\` reads it"
