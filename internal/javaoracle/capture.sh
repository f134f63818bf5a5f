#!/bin/bash
# Records the golden frames: codec/testdata/wire/<client>/ and codec/testdata/records/.
#
#   internal/javaoracle/capture.sh [SCRATCH] [PART...]      PART: small clients binary ipv6 export (default: all)
#
# small    a fresh name server and broker: what servers say to each other, a slave, and java/Extra.java
# clients  the interop scenarios and mqadmin, one client after the other (CLIENTS picks some)
# binary   servers that answer with binary headers, which Java does only when it is told to
# ipv6     a broker whose clients come over IPv6
# export   turns the recordings in SCRATCH/frames-*.jsonl into the golden files
# SCRATCH (default /srv/rocketmq) should be a neutral path: some answers contain it. The Java broker listens on
# 127.0.0.1 and advertises 127.0.0.2, where the recording proxy listens. Ports: PORT (default 23800) to PORT+121.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/../.." && pwd)
S=${1:-/srv/rocketmq}; [ $# -eq 0 ] || shift
parts=${*:-small clients binary ipv6 export}
PORT=${PORT:-23800}
NS=$PORT BR=$((PORT + 100))
mkdir -p "$S/cache" "$S/classes"
pids=()
trap '[ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null || true; wait' EXIT

(cd "$repo" && go build -o "$S/" ./internal/javaoracle/javasrv ./internal/javaoracle/capture)
jars() { # version
  local lib=$S/cache/java-client-$1
  [ -e "$lib/.done" ] && return
  mvn -q -B -f "$here/java/pom.xml" "-Dv=$1" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$lib"
  touch "$lib/.done"
}
ready() { # file text
  for _ in $(seq 1 400); do grep -q "$2" "$1" 2>/dev/null && return; sleep 0.2; done
  cat "$1"; return 1
}
record() { # name listen-host target-host
  rm -f "$S/frames-$1.jsonl"
  "$S/capture" record -out "$S/frames-$1.jsonl" -label-file "$S/label" -route "namesrv=$2:$NS,$3:$NS" \
    -route "broker=$2:$BR,$3:$BR" -route "vip=$2:$((BR - 2)),$3:$((BR - 2))" >"$S/record.log" 2>&1 &
  recorder=$!; pids+=($recorder); ready "$S/record.log" recording
}
servers() { # name javasrv-flags...
  local name=$1; shift
  rm -rf "${S:?}/$name"; mkdir -p "$S/$name"
  "$S/javasrv" -dir "$S/$name" -cache "$S/cache" "$@" >"$S/$name.log" 2>&1 &
  srv=$!; pids+=($srv); ready "$S/$name.log" ready
}
label() { echo "$1" >"$S/label"; }
extra() { # version part jvm-flags...
  local v=$1 part=$2; shift 2
  jars "$v"
  javac -nowarn -proc:none -d "$S/classes/$v" -cp "$S/cache/java-client-$v/*" "$here/java/Extra.java"
  RUN_ID=$(date +%s) timeout 120 java -XX:TieredStopAtLevel=1 "-Duser.home=$S/home" "$@" \
    -cp "$S/classes/$v:$S/cache/java-client-$v/*" Extra "$part"
}
export CLUSTER=DefaultCluster BROKER_NAME=broker-a

small() {
  label broker-5.3
  record small 127.0.0.2 127.0.0.1
  servers small -advertise 127.0.0.2 -namesrv "127.0.0.2:$NS" -namesrv-port "$NS" -broker-port "$BR"
  local master=$srv
  export NAMESRV=127.0.0.2:$NS BROKER=127.0.0.2:$BR
  sleep 5 # until the broker is registered
  for v in 5.3.3 4.9.8; do
    label "java-${v%.*}"
    extra "$v" admin
    extra "$v" send -Dorg.apache.rocketmq.client.sendSmartMsg=false
  done
  label java-5.3-binary
  extra 5.3.3 admin -Drocketmq.serialize.type=ROCKETMQ
  extra 5.3.3 send -Dorg.apache.rocketmq.client.sendSmartMsg=false -Drocketmq.serialize.type=ROCKETMQ
  label slave-5.3
  for flag in compressedRegister=true compatibleWithOldNameSrv=false; do # with the first Java cannot register at all
    servers slave -namesrv "127.0.0.2:$NS" -broker-port $((BR + 20)) -prop brokerId=1 -prop brokerRole=SLAVE \
      -prop forceRegister=false -prop enableSlaveActingMaster=true -prop "$flag"
    sleep 75 # the first synchronization of its tables comes after a minute
    kill $srv; wait $srv || true
  done
  kill $master; wait $master || true
  kill $recorder; wait $recorder || true
}

clients() {
  label broker-5.3
  record clients 127.0.0.2 127.0.0.1
  servers clients -advertise 127.0.0.2 -namesrv "127.0.0.2:$NS" -namesrv-port "$NS" -broker-port "$BR"
  sleep 5
  for c in ${CLIENTS:-java-5.3 java-4.9 java-5.3-binary go-remoting mqadmin-5.3 mqadmin-4.9}; do
    label "$c"
    "$repo/test/interop/run" -namesrv "127.0.0.2:$NS" -clients "$c" -set all || true # failures are frames too
  done
  kill $srv; wait $srv || true
  kill $recorder; wait $recorder || true
}

binary() {
  label broker-5.3-binary
  record binary 127.0.0.2 127.0.0.1
  servers binary -advertise 127.0.0.2 -namesrv "127.0.0.2:$NS" -namesrv-port "$NS" -broker-port "$BR" \
    -jvm -Drocketmq.serialize.type=ROCKETMQ
  sleep 5
  export NAMESRV=127.0.0.2:$NS BROKER=127.0.0.2:$BR
  label java-5.3-binary-both
  extra 5.3.3 admin -Drocketmq.serialize.type=ROCKETMQ
  extra 5.3.3 send -Drocketmq.serialize.type=ROCKETMQ
  kill $srv; wait $srv || true
  kill $recorder; wait $recorder || true
}

ipv6() {
  local addr; addr=$(ip -6 -o addr show scope global | awk 'NR==1{split($4,a,"/"); print a[1]}')
  [ -n "$addr" ] || { echo "no global IPv6 address: part ipv6 left out"; return; }
  label java-5.3
  record ipv6 "[$addr]" "[::1]"
  servers ipv6 -bind ::1 -advertise "$addr" -namesrv "[$addr]:$NS" -namesrv-port "$NS" -broker-port "$BR"
  sleep 5
  NAMESRV="[$addr]:$NS" BROKER="$addr:$BR" extra 5.3.3 ipv6
  kill $srv; wait $srv || true
  kill $recorder; wait $recorder || true
}

export_all() {
  local in="" f
  for f in small clients binary ipv6; do [ ! -e "$S/frames-$f.jsonl" ] || in=$in${in:+,}$S/frames-$f.jsonl; done
  rm -rf "$repo/codec/testdata/wire" "$repo/codec/testdata/records"
  "$S/capture" export -in "$in" -wire "$repo/codec/testdata/wire" -records "$repo/codec/testdata/records"
  find "$repo/codec/testdata/wire" "$repo/codec/testdata/records" -type f -printf '%s\n' | awk '{s+=$1} END{print NR " files, " s " bytes"}'
}

for p in $parts; do case $p in export) export_all ;; *) $p ;; esac; done
