#!/usr/bin/env bash
# Builds the gateway's image of deploy/Dockerfile without a container registry, the same bytes each time: its base is made of
# Debian's packages, with Debian's own Python. As root, with mmdebstrap and buildah (Debian has both). `make image` calls it.
#
#   deploy/image.sh PIP ARCHIVE
#
# PIP is a pip that fetches the wheels: they are the only thing besides Debian's packages that is fetched, and are held to the
# hashes in requirements/. ARCHIVE becomes an OCI archive, which skopeo, podman and containerd read. Prints the image's digest.
#
# SOURCE_DATE_EPOCH is the time of all files, by default that of the last commit. DEBIAN is a file with an APT list of Debian
# bookworm, such as one of a mirror, or of a day of Debian's snapshots: without one the packages are those of today.
set -euo pipefail
cd "$(dirname "$0")/.."

pip=$1 archive=$(realpath -m "$2")
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH LC_ALL=C.UTF-8

work=$(mktemp -d)
store=(buildah --root "$work/store" --runroot "$work/run")
finish() {
  "${store[@]}" rm --all >"$work/log" 2>&1 || true
  umount "$work/store/overlay" 2>"$work/log" || true
  rm -rf "$work"
}
trap finish EXIT
umask 022

quietly() { # COMMAND...; what it says is shown only when it fails
  "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; return 1; }
}

# Debian's packages and nothing of what installs them, as distroless images have it: no apt, no dpkg, none of their scripts.
# What scanners know packages by is kept.
cat >"$work/list" <<'END'
#!/bin/sh
set -eu
mkdir -p "$1/var/lib/dpkg/status.d"
for deb in "$1"/var/cache/apt/archives/*.deb; do
  dpkg-deb --field "$deb" >"$1/var/lib/dpkg/status.d/$(dpkg-deb --field "$deb" Package)"
done
END
chmod +x "$work/list"

rootfs() { # DIRECTORY PACKAGE...
  local into=$1 packages
  shift
  packages=$(IFS=,; echo "base-files,base-passwd,ca-certificates,coreutils,dash,libc-bin,libstdc++6,python3,python-is-python3${*:+,$*}")
  quietly mmdebstrap --variant=extract --mode=root --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr --include="$packages" \
    --extract-hook="$work/list" --format=tar bookworm "$work/root.tar" ${DEBIAN:+"$DEBIAN"}
  tar --extract --file "$work/root.tar" --directory "$into"
  rm "$work/root.tar"
  (
    cd "$into"
    # What the packages' scripts would have done.
    cp usr/share/base-passwd/passwd.master etc/passwd
    cp usr/share/base-passwd/group.master etc/group
    cp usr/share/libc-bin/nsswitch.conf etc/nsswitch.conf
    find usr/share/ca-certificates -name '*.crt' | sort | xargs awk 1 >etc/ssl/certs/ca-certificates.crt
    # What is this machine's, and what nothing reads.
    rm -rf etc/apt etc/dpkg etc/hostname etc/resolv.conf usr/bin/apt* usr/bin/dpkg* var/lib/apt var/cache/* var/log/*
    rm -rf usr/share/bash-completion usr/share/info usr/share/lintian usr/share/locale usr/share/man
    find usr/share/doc -mindepth 2 ! -name copyright ! -type d -delete
  )
}

base() { # NAME PACKAGE...; makes an image localhost/NAME
  local name=$1 container mounted
  shift
  container=$("${store[@]}" from scratch)
  mounted=$("${store[@]}" mount "$container")
  rootfs "$mounted" "$@"
  if [[ $name == python ]]; then # bytecode that isn't there would be made anew at each start: the root file system is read-only
    PYTHONHASHSEED=0 chroot "$mounted" python3 -m compileall -q -f --invalidation-mode unchecked-hash /usr/lib/python3.11
  fi
  "${store[@]}" umount "$container" >"$work/log"
  quietly "${store[@]}" commit --quiet --timestamp "$SOURCE_DATE_EPOCH" "$container" "localhost/$name"
  quietly "${store[@]}" rm "$container"
}
base python
base builder python3-pip

# For Debian's Python, whichever runs pip.
machine=$(uname -m)
tags=(--only-binary :all: --implementation cp --python-version 3.11 --abi cp311 --abi abi3 --abi none)
for glibc in $(seq 36 -1 5); do tags+=(--platform "manylinux_2_${glibc}_$machine"); done
tags+=(--platform "manylinux2014_$machine")
for set in build image; do
  quietly "$pip" download --quiet --disable-pip-version-check --require-hashes "${tags[@]}" --dest "$work/wheels" \
    --requirement "requirements/$set.txt"
done
printf '[global]\nno-index = true\nfind-links = /wheels\n' >"$work/pip.conf"

# Without a network, so that nothing can be in it that wasn't asked for.
quietly unshare --net "${store[@]}" bud --isolation chroot --network host --pull-never --layers=false --format oci \
  --timestamp "$SOURCE_DATE_EPOCH" --build-arg PYTHON=localhost/python --build-arg BUILDER=localhost/builder \
  --volume "$work/wheels:/wheels:ro" --volume "$work/pip.conf:/etc/pip.conf:ro" \
  --file deploy/Dockerfile --ignorefile deploy/Dockerfile.dockerignore --tag localhost/extproc .
mkdir -p "$(dirname "$archive")"
rm -f "$archive"
quietly "${store[@]}" push --quiet --digestfile "$work/digest" localhost/extproc "oci-archive:$archive:extproc"
cat "$work/digest"
echo
