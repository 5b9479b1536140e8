#!/bin/sh
# The simplest Observer: follows the current thread of a project and prints its completed turns, one JSON line each. Needs
# jq. It begins with the newest turns. With two sessions at work at once a switch tells the other thread from its start,
# and what the first one completed between two polls is never told: if that matters, see observe.sh.
#
#   observe-current.sh PROJECT CURSOR_FILE [SECONDS | once]
set -u
umask 077

[ $# -ge 2 ] || { echo 'usage: observe-current.sh PROJECT CURSOR_FILE [SECONDS | once]' >&2; exit 1; }
project=$(CDPATH='' cd -- "$1" && pwd) || exit 1
file=$2 interval=${3:-1} throughline=${THROUGHLINE:-throughline}

# A known state comes on stdout, a hard failure as one JSON line on stderr: never both.
ask() { answer=$("$throughline" observer-read --project "$project" --json "$@" 2>&1) || [ $? -eq 1 ] || exit 1; }
field() { printf '%s\n' "$answer" | jq -rc "$1"; }
store() { printf '%s\n' "$after" >"$file.new" && mv "$file.new" "$file" || exit 1; }

after=$(cat "$file" 2>/dev/null)
through='' page='' pause=''
while :; do
    ask ${after:+--after-cursor "$after"} ${page:+--through-cursor "$through" --page-token "$page"}
    status=$(field .status) || exit 1
    case $status in
    snapshot | delta | thread_switched | host_switched)
        field '.turns[]' || exit 1
        through=$(field .throughCursor) page=$(field '.page.nextToken // ""') pause=''
        [ -z "$page" ] || continue # the next page, at once
        [ "$after" = "$through" ] || { after=$through && store; } ;;
    resync_required) # the cursor does not hold any more: begin with the newest turns again
        echo "observe: $status" >&2
        after='' page='' pause=''
        store ;;
    ambiguous_parent) # both hosts completed a turn in the same millisecond: the next completion decides
        echo "observe: $status" >&2
        pause=1 ;;
    projection_pending | error) # wait for the bodies, or until what fails is repaired: 0.25 s, then up to 5 s
        echo "observe: $(field '.code // .status')" >&2
        [ "$status" != error ] || page='' # should it be the page token: the series begins again
        case $pause in '') pause=0.25 ;; 0.25) pause=0.5 ;; 0.5) pause=1 ;; 1) pause=2 ;; 2) pause=4 ;; *) pause=5 ;; esac ;;
    esac
    [ "$interval" != once ] || exit 0
    sleep "${pause:-$interval}" || exit 1
done
