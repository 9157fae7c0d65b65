#!/bin/sh
# Makes sure that this machine has what Holdfast is built and tested with, and
# says aloud what it installs. It changes nothing that is there already.
#
#   scripts/setup.sh run     Go and PostgreSQL's server programs
#   scripts/setup.sh test    the same, a C compiler for the race detector, Python
#                           and curl for the example loops, Node.js for MCP servers,
#                           and Chromium for the console
set -eu

# The toolchain that is fetched where the system has no usable Go. The digests
# are the ones of Go's checksum database (h1, in hexadecimal).
toolchain=go1.26.8
digest_amd64=64e9867b53a77d110330875bd508b81bd252b833c12c613164c4389e2b354573
digest_arm64=b182ff3ba32a4baf0c2f4923b10dfa5a8608a49aa4c3ad13c62cd651850a40c7

# npm comes from its registry: as a package of the system it brings hundreds of others.
npm=10.9.4
digest_npm=4bfba8a0c823024d1926ec9d97a37a00eb60fd2adf44b3d34a686fc32e8f51e4

here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/holdfast/go

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null 2>&1; then
    sudo "$@"
  else
    die "this needs root and there is no sudo; run as root: $*"
  fi
}

updated=
# install_packages WHY PACKAGE...
install_packages() {
  why=$1
  shift
  if ! command -v apt-get >/dev/null 2>&1; then
    die "$why is missing. This script installs with apt-get only; install it with your package manager ($*) and start again."
  fi
  say "$why is missing; installing from the system's packages: $*"
  if [ -z "$updated" ]; then
    as_root apt-get update -q >&2 || say "apt-get update failed; trying with the lists that are there"
    updated=yes
  fi
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@" >&2
}

have_postgres() {
  for dir in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/libexec/postgresql* \
    /opt/homebrew/opt/postgresql@*/bin /usr/local/opt/postgresql@*/bin; do
    if [ -x "$dir/postgres" ] && [ -x "$dir/initdb" ]; then return 0; fi
  done
  command -v postgres >/dev/null 2>&1 && command -v initdb >/dev/null 2>&1
}

# Debian's package makes a cluster and starts it on port 5432. Nobody asked for
# that, so it is switched off while the package is installed.
install_postgres() {
  if [ "$(uname)" = Darwin ]; then
    command -v brew >/dev/null 2>&1 || die "PostgreSQL is missing; install Homebrew or PostgreSQL and start again"
    say "PostgreSQL is missing; installing with Homebrew (it is not started): postgresql@17"
    brew install postgresql@17 >&2
    return
  fi
  install_packages "PostgreSQL" postgresql-common
  conf=/etc/postgresql-common/createcluster.conf
  as_root cp -p "$conf" "$conf.holdfast"
  as_root sh -c "grep -v '^[# ]*create_main_cluster' '$conf.holdfast' >'$conf'; echo 'create_main_cluster = false' >>'$conf'"
  status=0
  install_packages "PostgreSQL's server (no system cluster is made or started)" postgresql || status=$?
  as_root mv "$conf.holdfast" "$conf"
  return $status
}

# fetch_toolchain takes Go from the module proxy, where every version of it is
# kept as a module, and checks it against the digest above.
fetch_toolchain() {
  case $(uname -s)-$(uname -m) in
    Linux-x86_64) arch=amd64 digest=$digest_amd64 ;;
    Linux-aarch64 | Linux-arm64) arch=arm64 digest=$digest_arm64 ;;
    *) die "install Go 1.21 or newer (https://go.dev/dl) and start again" ;;
  esac
  proxy=${GOPROXY:-https://proxy.golang.org}
  proxy=${proxy%%,*}
  proxy=${proxy%%|*}
  case $proxy in http*) ;; *) proxy=https://proxy.golang.org ;; esac
  for tool in curl unzip; do
    command -v $tool >/dev/null 2>&1 || install_packages "$tool, to fetch Go," ca-certificates $tool
  done
  name=golang.org/toolchain@v0.0.1-$toolchain.linux-$arch
  say "fetching Go ($toolchain) from $proxy to $cache"
  mkdir -p "$(dirname "$cache")"
  work=$(mktemp -d "$(dirname "$cache")/fetch.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  curl -fsSL --retry 3 -o "$work/go.zip" "$proxy/golang.org/toolchain/@v/v0.0.1-$toolchain.linux-$arch.zip"
  (cd "$work" && unzip -q go.zip && rm go.zip)
  got=$(cd "$work" && find "$name" -type f | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -d' ' -f1)
  [ "$got" = "$digest" ] || die "what $proxy sent is not $toolchain: digest $got, want $digest"
  chmod +x "$work/$name"/bin/* "$work/$name"/pkg/tool/*/*
  rm -rf "$cache"
  mv "$work/$name" "$cache"
}

fetch_npm() {
  dir=$(dirname "$cache")/npm
  if [ -f "$dir/bin/npm-cli.js" ]; then return 0; fi
  command -v curl >/dev/null 2>&1 || install_packages "curl, to fetch npm," ca-certificates curl
  say "fetching npm ($npm) from its registry to $dir"
  mkdir -p "$(dirname "$dir")"
  work=$(mktemp -d "$(dirname "$dir")/fetch.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  curl -fsSL --retry 3 -o "$work/npm.tgz" "https://registry.npmjs.org/npm/-/npm-$npm.tgz"
  echo "$digest_npm  $work/npm.tgz" | sha256sum -c - >/dev/null || die "what the registry sent is not npm $npm"
  (cd "$work" && tar xzf npm.tgz)
  rm -rf "$dir"
  mv "$work/package" "$dir"
}

# Go. One from the packages is used when it can fetch the right toolchain by
# itself; several systems ship an older one.
if ! "$here/go" version >/dev/null 2>&1; then
  packaged=
  if ! command -v go >/dev/null 2>&1 && command -v apt-cache >/dev/null 2>&1; then
    packaged=$(apt-cache policy golang-go 2>/dev/null | sed -n 's/^ *Candidate: *\([0-9]*:\)\{0,1\}1\.\([0-9]*\).*/\2/p')
  fi
  if [ "${packaged:-0}" -ge 21 ]; then
    install_packages "Go" golang-go ca-certificates
  else
    fetch_toolchain
  fi
  "$here/go" version >/dev/null || die "Go was installed and does not run"
fi

have_postgres || install_postgres
have_postgres || die "PostgreSQL was installed and its server programs are not found"

if [ "${1:-run}" = test ]; then
  command -v "${CC:-gcc}" >/dev/null 2>&1 || command -v cc >/dev/null 2>&1 ||
    install_packages "A C compiler, for the race detector," gcc libc6-dev
  command -v node >/dev/null 2>&1 || install_packages "Node.js, for the MCP servers that tools are tested with," nodejs
  command -v npm >/dev/null 2>&1 || fetch_npm
  if ! command -v pgbouncer >/dev/null 2>&1 && ! [ -x /usr/sbin/pgbouncer ]; then
    install_packages "PgBouncer, which Holdfast must work through (its service is switched off)," pgbouncer
    if command -v systemctl >/dev/null 2>&1; then as_root systemctl disable --now pgbouncer >/dev/null 2>&1 || true; fi
  fi
  command -v chromium >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1 ||
    install_packages "Chromium, which the console is tested in," chromium fonts-dejavu-core
  command -v python3 >/dev/null 2>&1 || install_packages "Python, for the loop of examples/python-loop," python3
  command -v curl >/dev/null 2>&1 || install_packages "curl, for the loop of examples/shell-loop," curl ca-certificates
fi
