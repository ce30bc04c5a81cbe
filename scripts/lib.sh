# What the scripts share. Source it; it changes to the repository's root.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
REPO=$PWD

# Debian's Python, which has Debian's Scapy; another python3 may stand first in PATH.
PYTHON=/usr/bin/python3
export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin:/usr/sbin:/sbin"
TARGET=${CARGO_TARGET_DIR:-$REPO/target}

if [ -t 1 ]; then BOLD=$'\e[1m' RED=$'\e[31m' GREEN=$'\e[32m' YELLOW=$'\e[33m' PLAIN=$'\e[0m'
else BOLD='' RED='' GREEN='' YELLOW='' PLAIN=''; fi

step() { printf '%s==> %s%s\n' "$BOLD" "$*" "$PLAIN"; }
ok() { printf '%s    ok: %s%s\n' "$GREEN" "$*" "$PLAIN"; }
warn() { printf '%s    %s%s\n' "$YELLOW" "$*" "$PLAIN"; }
die() { printf '%serror: %s%s\n' "$RED" "$*" "$PLAIN" >&2; exit 1; }
need_root() { [ "$(id -u)" -eq 0 ] || die "run this as root: it makes network namespaces and installs packages"; }
