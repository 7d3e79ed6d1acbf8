#!/usr/bin/env bash
# Drives the worker against LLM endpoints that somebody else wrote, and checks that nothing it sends is refused.
#
#   tests/lab/run.sh WORKER [TASKS]
#
# Port 4100: a strict proxy before a llama.cpp server whose answers are dice: TASKS tasks (200 by default), then some
# under each stream fault. Port 4101: the same proxy before scripted answers: each once, with the exit status it must
# have. A task that takes longer than two minutes hangs, an exit status above 128 other than 130 is a crash.
set -euo pipefail
worker=$(realpath "$1")
tasks=${2:-200}
dice=http://127.0.0.1:4100
scripted=http://127.0.0.1:4101
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
export XDG_STATE_HOME=$place/state
mkdir -p "$place/root/ü"
printf 'hello\nworld\n' >"$place/root/a.txt"
printf 'again\n' >"$place/root/ü/日本.txt"
passed=0
failed=0

task() { # BASE PROMPT OPTION... ; sets $status
  local base=$1 prompt=$2
  shift 2
  status=0
  timeout 120 "$worker" run --root "$place/root" --base-url "$base/v1" --model dice --max-requests 8 "$@" \
    "$prompt" >"$place/out" 2>"$place/err" </dev/null || status=$?
}

verdict() { # NAME CONDITION
  if eval "$2"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: $1: exit status $status"
    sed 's/^/    /' "$place/err" | tail -5
  fi
}

# An answer, or a typed limit, or an error of the endpoint; never a hang, a crash or a panic.
typed() {
  case $status in 0 | 1 | 3) ! grep -q "panicked at" "$place/err" ;; *) false ;; esac
}

curl -sf -X POST "$dice/__strict/reset" >/dev/null
curl -sf -X POST "$scripted/__strict/reset" >/dev/null

for n in $(seq "$tasks"); do
  task "$dice" "task $n: look around and tell what you find"
  # The dice model's window is small: a conversation that outgrows it is a limit too, and must be named as one.
  verdict "dice task $n" 'typed && { [ "$status" != 1 ] || grep -q "too long for the model" "$place/err"; }'
done
for fault in bytes=1 crlf pings bytes=7,crlf,pings nodone cut=700 end=3 status=503; do
  for n in 1 2 3; do
    task "$dice" "task $n under $fault" --header "x-strict-fault: $fault"
    verdict "dice under $fault" typed
  done
done

expect() { # STATUS PROMPT
  task "$scripted" "$2"
  verdict "scripted '$2' (wanted $1)" "[ \$status = $1 ] && typed"
}
expect 0 "hello"
expect 0 "two tools"
expect 0 "split emoji"
expect 0 "tool before text"
expect 3 "loop for ever"
expect 0 "no such tool"
expect 0 "wrong arguments"
expect 1 "cut after 3 chunks"
expect 1 "hang up after 50 ms"
expect 0 "slow first token"
expect 3 "out of length"
expect 3 "filtered"
expect 0 "thinks"
expect 0 "rate limit twice"
expect 0 "overloaded once"
expect 1 "bad request"
expect 1 "context too long"

for proxy in "$dice" "$scripted"; do
  if ! curl -sf "$proxy/__strict" | grep -q '"refused": \[\]'; then
    failed=$((failed + 1))
    echo "FAILED: the proxy at $proxy refused:"
    curl -sf "$proxy/__strict" | head -c 2000
    echo
  fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
