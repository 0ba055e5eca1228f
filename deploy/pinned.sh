#!/bin/sh
# Refuse a build of the image that would not be the same tomorrow, and have apt take its packages of one day.
#   pinned.sh BASE SNAPSHOT UNPINNED [SOURCES]
# BASE must be named by digest (…@sha256:…), SNAPSHOT be a time of snapshot.debian.org (20260115T000000Z). UNPINNED=yes
# allows neither, for a try. Where SOURCES is given, apt's list is written there.
set -eu
base=$1 snapshot=$2 unpinned=$3 sources=${4:-}

refuse() {
    [ "$unpinned" = yes ] && return
    echo "$1; or give UNPINNED=yes for an image that is not released" >&2
    exit 1
}

printf '%s\n' "$base" | grep -Eq '^[^@ ]+@sha256:[0-9a-f]{64}$' ||
    refuse "DEBIAN is '$base': name the base image by digest, like docker.io/library/debian@sha256:<64 digits>"
printf '%s\n' "$snapshot" | grep -Eq '^[0-9]{8}T[0-9]{6}Z$' ||
    refuse "SNAPSHOT is '$snapshot': give a time of snapshot.debian.org, like 20260115T000000Z"
if [ -n "$sources" ] && [ -n "$snapshot" ]; then
    # Signed, so plain HTTP will do; and old on purpose, so it is not refused for its age.
    cat > "$sources" <<END
Types: deb
URIs: http://snapshot.debian.org/archive/debian/$snapshot/
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
Check-Valid-Until: no

Types: deb
URIs: http://snapshot.debian.org/archive/debian-security/$snapshot/
Suites: bookworm-security
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
Check-Valid-Until: no
END
fi
