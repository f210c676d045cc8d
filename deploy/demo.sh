#!/bin/sh
# The main job, from nothing: a federation with two regions and six hosts runs an example job in real containers,
# survives kills and drains a host. `make demo` builds what this needs and runs it.
#
# POLDER       the polder binary (default: beside the build's other programs)
# DEMO_EXIT=1  ends by itself: 0 when everything went as it should, 1 otherwise. Without it, stays until Ctrl-C.
# DEMO_PORT    first port on 127.0.0.1 (default 7000; region k gets the k-th after it)
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
bin=${CARGO_TARGET_DIR:-$here/target}/release
case $bin in /*) ;; *) bin=$here/$bin ;; esac
polder=${POLDER:-$bin/polder}
port=${DEMO_PORT:-7000}
task_ports=${DEMO_TASK_PORTS:-21000}
data=$(mktemp -d /tmp/polder-demo.XXXXXX)
POLDER_ADDR=http://127.0.0.1:$port
export POLDER_ADDR
dev_pid=

say() { printf '\n== %s\n' "$*"; }
fail() {
    printf '\nFAILED: %s\n' "$*" >&2
    printf 'the end of the logs in %s/logs:\n' "$data" >&2
    tail -n 5 "$data"/logs/*.log >&2 || true
    exit 1
}

clean_up() {
    status=$?
    trap - EXIT INT TERM
    if [ -n "$dev_pid" ]; then
        say "stopping everything"
        kill -TERM "$dev_pid" 2>/dev/null || true
        wait "$dev_pid" 2>/dev/null || true
    fi
    rm -rf "$data"
    left=$(leftovers)
    if [ -n "$left" ]; then
        printf 'FAILED: something was left behind:\n%s\n' "$left" >&2
        status=1
    else
        echo "nothing is left: no process, mount, cgroup or file"
    fi
    exit "$status"
}

# Cgroups and run directories of hosts: what another trial on this machine had before is not ours.
host_folders() {
    for dir in /sys/fs/cgroup/*/polder /sys/fs/cgroup/polder /run/polder; do
        [ -d "$dir" ] && find "$dir" -mindepth 1 -maxdepth 1 -type d || true
    done
}
others=$(host_folders)

# Anything on the machine that belongs to this run.
leftovers() {
    grep -s "$data" /proc/mounts || true
    host_folders | while read -r dir; do
        printf '%s\n' "$others" | grep -qxF "$dir" || echo "$dir"
    done
    for exe in /proc/[0-9]*/cmdline; do
        { tr '\0' ' ' <"$exe"; } 2>/dev/null | grep -e "$data" || true
    done
    [ -e "$data" ] && echo "$data" || true
}

# wait_for SECONDS WHAT COMMAND...: until the command succeeds.
wait_for() {
    tries=$(($1 * 5))
    what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || fail "$what did not happen in time"
        sleep 0.2
    done
}

job=demo/web
status() { "$polder" status "$job" -o json; }
# One line a task: task host epoch pid address
tasks() { status | jq -r '.tasks[] | [.task, .host, .epoch, .pid, (.ports[0].address // "-")] | @tsv' | sort; }
healthy() { [ "$(status | jq -r .state)" = healthy ]; }
agent_pid() { jq -r --arg name "host-$1" '.[] | select(.name == $name) | .pid' "$data/dev/dev.json"; }

[ -x "$polder" ] || { echo "there is no $polder: run \`make build\` first" >&2; exit 1; }
[ "$(id -u)" = 0 ] || { echo "real containers need root: run it with sudo" >&2; exit 1; }
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

say "packing the demo workload into an OCI image"
"$polder" image pack --binary "$bin/polder-demo" --output "$data/image" --tag v1
sed "s|^image *=.*|image = \"oci:$data/image:v1\"|" "$here/examples/web.toml" >"$data/web.toml"

say "starting a federation with two regions of three hosts each"
"$polder" dev --regions 2 --hosts 3 --data "$data/dev" --port "$port" --task-ports "$task_ports" &
dev_pid=$!
wait_for 60 "the start of the federation" "$polder" hosts
hosts_ready() { [ "$("$polder" hosts -o json | jq '[.hosts[] | select(.health == "ready")] | length')" = 6 ]; }
wait_for 60 "the arrival of six hosts" hosts_ready
"$polder" hosts

say "applying examples/web.toml: six tasks over both regions"
"$polder" apply -f "$data/web.toml" --wait --timeout 120s || fail "the job did not become healthy"
"$polder" status "$job"
[ "$(tasks | wc -l)" = 6 ] || fail "there are not six tasks"

say "each task answers HTTP"
tasks | while read -r task _ _ _ address; do
    wait_for 20 "an answer from $task" curl -fsS "http://$address/"
    printf '%s  ' "$task"
    curl -fsS "http://$address/"
    echo
done

say "each runs in a real container"
pid=$(tasks | awk 'NR==1 {print $4}')
for kind in pid mnt ipc uts; do
    [ "$(readlink /proc/$$/ns/$kind)" != "$(readlink "/proc/$pid/ns/$kind")" ] || fail "the $kind namespace is the machine's"
    printf '%s namespace: %s (the machine: %s)\n' "$kind" "$(readlink "/proc/$pid/ns/$kind")" "$(readlink /proc/$$/ns/$kind)"
done
grep -q ' / .* - overlay ' "/proc/$pid/mountinfo" || fail "its root is not an overlay"
shim=$(awk '/^PPid:/ {print $2}' "/proc/$pid/status")
printf 'root: overlay; shim %s runs %s\n' "$shim" "$(readlink "/proc/$shim/exe")"
case $(readlink "/proc/$shim/exe") in *memfd*) ;; *) fail "the shim does not run from a memfd" ;; esac
state=$(find /run/polder -path '*/libcontainer/*' -name state.json -exec grep -l "\"pid\": *$pid\b" {} + | head -n 1)
[ -n "$state" ] || fail "libcontainer has no state of process $pid"
echo "libcontainer's state: $state"

say "killing one container: its task comes back"
line=$(tasks | head -n 1)
task=$(echo "$line" | awk '{print $1}')
epoch=$(echo "$line" | awk '{print $3}')
kill -9 "$(echo "$line" | awk '{print $4}')"
back() { [ "$(tasks | awk -v t="$task" '$1 == t {print $3}')" -gt "$epoch" ] && healthy; }
wait_for 60 "the return of $task" back
"$polder" status "$job"

say "killing one host's agent: nothing restarts"
host=$(tasks | awk 'NR==1 {print $2}')
before=$(tasks)
old=$(agent_pid "$host")
kill -9 "$old"
new_agent() { [ "$(agent_pid "$host")" != "$old" ]; }
wait_for 30 "the restart of the agent of $host" new_agent
sleep 3
wait_for 30 "the job's health" healthy
[ "$before" = "$(tasks)" ] || fail "tasks changed: before
$before
after
$(tasks)"
echo "agent of $host: pid $old, now $(agent_pid "$host"); every task has the same pid and epoch as before"

say "draining $host"
"$polder" drain "$host" --deadline 60s --reason "demo" --wait || fail "the drain did not end as drained"
wait_for 60 "the job's health" healthy
"$polder" status "$job"
if tasks | awk '{print $2}' | grep -qx "$host"; then fail "a task is still on $host"; fi
"$polder" hosts

say "what to try next"
cat <<EOF
  export POLDER_ADDR=$POLDER_ADDR
  $polder status $job -o wide
  $polder why $job/0
  $polder logs $job/0 -f
  $polder uncordon $host
  $polder events -f
  $polder stop $job
EOF
if [ "${DEMO_EXIT:-}" = 1 ]; then
    exit 0
fi
echo
echo "Ctrl-C stops everything and leaves nothing behind"
wait "$dev_pid"
