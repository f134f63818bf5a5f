#!/bin/bash
# Makes sure that a JDK of 17 or newer and Maven are there; installs them with apt-get when they are not.
set -euo pipefail
missing=()
version=$(javac -version 2>&1 | sed -n 's/^javac \([0-9]*\).*/\1/p' || true)
[ "${version:-0}" -ge 17 ] || missing+=(openjdk-17-jdk-headless)
command -v mvn >/dev/null || missing+=(maven)
[ ${#missing[@]} -gt 0 ] || exit 0
command -v apt-get >/dev/null || { echo "interop needs: ${missing[*]}" >&2; exit 1; }
sudo=
[ "$(id -u)" -eq 0 ] || sudo=sudo
$sudo apt-get update -q
if [ "${version:-0}" -lt 17 ] && ! apt-cache show openjdk-17-jdk-headless >/dev/null 2>&1; then
  missing=("${missing[@]/openjdk-17-jdk-headless/default-jdk-headless}") # newer systems have no 17
fi
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -q -y --no-install-recommends "${missing[@]}"
