#!/bin/bash
# Makes the golden store directories: store/testdata/java-5.3.3-{clean,killed,timer}.tar.gz and their manifests.
#
#   internal/javaoracle/makestore.sh [SCRATCH]
#
# A Java 5.3.3 broker with small files is filled by java/StoreWriter.java, then ended in order (clean) or with kill -9
# (killed). The archives hold the store directory as it was left, without its lock file. SCRATCH (default
# /srv/rocketmq) should be a neutral path: the broker writes it into some files. Ports: PORT (default 23640) and up.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/../.." && pwd)
S=${1:-/srv/rocketmq}
PORT=${PORT:-23640}
out=$repo/store/testdata
mkdir -p "$S/cache" "$out"
(cd "$repo" && go build -o "$S/javasrv" ./internal/javaoracle/javasrv)
lib=$S/cache/java-client-5.3.3
[ -e "$lib/.done" ] || {
  mvn -q -B -f "$here/java/pom.xml" -Dv=5.3.3 dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$lib"
  touch "$lib/.done"
}
mkdir -p "$S/classes"
javac -nowarn -proc:none -d "$S/classes" -cp "$lib/*" "$here/java/StoreWriter.java"

small="-prop mappedFileSizeCommitLog=1048576 -prop mappedFileSizeConsumeQueue=6000 -prop maxHashSlotNum=100 -prop maxIndexNum=400
  -prop deleteWhen=99 -prop fileReservedTime=2400 -prop transactionTimeOut=600000"

make_one() { # name mode javasrv-flags...
  local name=$1 mode=$2 dir=$S/store-$1; shift 2
  rm -rf "$dir"; mkdir -p "$dir"
  # shellcheck disable=SC2086
  "$S/javasrv" -dir "$dir" -cache "$S/cache" -namesrv-port "$PORT" -broker-port $((PORT + 20)) $small "$@" >"$dir/srv.log" 2>&1 &
  local pid=$!
  for _ in $(seq 1 300); do grep -q ready "$dir/srv.log" && break; kill -0 $pid || { cat "$dir/srv.log"; exit 1; }; sleep 0.2; done
  NAMESRV=127.0.0.1:$PORT BROKER=127.0.0.1:$((PORT + 20)) BROKER_NAME=broker-a java -XX:TieredStopAtLevel=1 -Duser.home="$dir/home" \
    -cp "$S/classes:$lib/*" StoreWriter "$mode" "$dir/manifest.json"
  kill $pid; wait $pid || true
  cp "$dir/manifest.json" "$out/java-5.3.3-$name.json"
  tar -C "$dir/store" --sort=name --owner=0 --group=0 --numeric-owner --exclude=./lock -c . | gzip -9n >"$out/java-5.3.3-$name.tar.gz"
  ls -l "$out/java-5.3.3-$name.tar.gz"
}

make_one clean plain -prop timerWheelEnable=false
make_one killed plain -prop timerWheelEnable=false -kill
make_one timer timer -prop timerWheelEnable=true -prop mappedFileSizeTimerLog=1048576 -kill
