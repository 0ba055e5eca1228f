# What a person does between the README's commands: work in the clone, read what `make up` prints, open the dashboard.
# Nothing of this machine's own `dray up` is touched: everything is kept in a directory of its own.

cd "${BASH_SOURCE[0]%/*}/../.."

if [ "${NEWCOMER_AT:-}" = "" ]; then
  NEWCOMER_AT=$(mktemp -d /tmp/newcomer-XXXXXX)
  export NEWCOMER_AT XDG_STATE_HOME="$NEWCOMER_AT"
  unset KUBECONFIG
  status=0
  if [ "$(id -u)" = 0 ]; then
    # Root keeps it in /var/lib/dray: there it sees an empty disk of its own.
    unshare --mount sh -c 'mkdir -p /var/lib/dray && mount -t tmpfs newcomer /var/lib/dray && exec "$@"' - bash "$0" || status=$?
  else
    bash "$0" || status=$?
  fi
  rm -rf "$NEWCOMER_AT"
  exit "$status"
fi

# The terminal in which `make up` runs is another one: what it says there goes to a file.
UP_SAYS="$NEWCOMER_AT/up.out"
make() { exec "$(type -P make)" "$@" > "$UP_SAYS" 2>&1; }
give_up() {
  echo "the script failed; make up said:"
  cat "$UP_SAYS"
  .venv/bin/dray down --purge --yes || kill $(jobs -p)
  wait
}
trap '[ "$?" = 0 ] || give_up' EXIT

wait_up() {
  until grep -q "Ctrl-C ends it" "$UP_SAYS" 2> /dev/null; do
    kill -0 %1 || { echo "make up has ended"; return 1; }
    sleep 0.1
  done
}

# Who sees nothing yet asks again.
wait_log() { until [ "$(dray logs hello)" ]; do sleep 0.1; done; }
wait_claim() { until dray get claims | grep -q too-many; do sleep 0.1; done; }

# On a terminal the address has the token in it; in a file stands where the token is.
wait_dashboard() {
  python3 - "$(sed -n 's/^ *dashboard *//p' "$UP_SAYS")" <<'END'
import json, pathlib, sys, urllib.request

address, _, file = sys.argv[1].rstrip(")").partition(" (token: ")
token = pathlib.Path(file).read_text().strip()
with urllib.request.urlopen(f"{address}/") as page:
    assert b"<html" in page.read(), "no page"
request = urllib.request.Request(f"{address}/api/fleet", headers={"Authorization": f"Bearer {token}"})
with urllib.request.urlopen(request) as answer:
    print("dashboard:", json.load(answer)["summary"]["held"], "device is held")
END
}

wait_end() { wait %1; }
