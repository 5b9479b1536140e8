#!/bin/sh
# An Observer in shell: prints every completed turn of a project, of all its sessions, as one JSON line each. Needs jq.
#
#   observe.sh --project DIR --state DIR [--interval SECONDS] [--once]
#
# DIR of --state (or $OBSERVE_STATE) is this project's alone: it keeps one small file for each thread, with the cursor up
# to which everything has been printed. $THROUGHLINE is the program to ask, else `throughline`.
#
# A turn is printed before its cursor is stored, so after a crash or a resync a turn may come again, never not at all. It
# is the same turn if thread_sha256, source_sha256, user_sha256 and assistant_sha256 are the same.
set -u
umask 077

die() { printf 'observe: %s\n' "$1" >&2; exit 1; }
say() { printf 'observe: %s: %s\n' "$1" "$2" >&2; }

project='' state=${OBSERVE_STATE-} interval=1 once='' throughline=${THROUGHLINE:-throughline}
while [ $# -gt 0 ]; do
    case $1 in
    --once) once=1 && shift && continue ;;
    --project | --state | --interval) [ $# -gt 1 ] || die "$1 needs a value" ;;
    *) die "unknown option $1" ;;
    esac
    case $1 in
    --project) project=$2 ;;
    --state) state=$2 ;;
    --interval) interval=$2 ;;
    esac
    shift 2
done
[ -n "$project" ] && [ -n "$state" ] || die 'usage: observe.sh --project DIR --state DIR [--interval SECONDS] [--once]'
project=$(CDPATH='' cd -- "$project" && pwd) || exit 1
mkdir -p -- "$state" && state=$(CDPATH='' cd -- "$state" && pwd) || exit 1

# Asks, and leaves the answer in $answer and its status in $status. A known state comes on stdout with exit code 0, a hard
# failure as one JSON line on stderr with exit code 1, never both: so one variable takes either.
ask() {
    answer=$("$throughline" "$@" --project "$project" --json 2>&1) || [ $? -eq 1 ] || die "$throughline: $answer"
    status=$(field '.status // "threads"') || die 'the answer is no JSON'
}

field() { printf '%s\n' "$answer" | jq -rc "$1"; }

# What is known of $thread: everything up to the cursor $after has been printed; if $page is not empty, so have the pages
# before it of the series from $after to $through.
recall() {
    after='' through='' page=''
    [ ! -f "$state/$thread" ] || { read -r after; read -r through; read -r page; } <"$state/$thread"
    [ -n "$after" ] || after=$empty
}

remember() {
    printf '%s\n' "$after" "$through" "$page" >"$state/.new" && mv "$state/.new" "$state/$thread" || die 'cannot write the state'
}

# Prints the turns of $thread from where we are to its cursor $newest.
follow() {
    recall
    [ "$after" != "$newest" ] || return 0
    [ -n "$page" ] || through=$newest
    while :; do
        ask observer-read --after-cursor "$after" --through-cursor "$through" ${page:+--page-token "$page"}
        case $status in
        delta | thread_switched | host_switched) # between two cursors of one thread it is always delta
            [ "$(field .historyTruncated)" = false ] || say "$thread" 'its oldest turns are no longer retained'
            field '.turns[]' || die 'cannot write the turns'
            page=$(field '.page.nextToken // ""')
            [ -n "$page" ] || after=$through
            remember
            [ -n "$page" ] || return 0 ;;
        resync_required) # rolled back, replaced, or cut by its host
            say "$thread" "$status"
            # From the start; if we come from there, it changed just now, and the next round has a better cursor.
            [ "$after" != "$empty" ] || { through='' page='' && remember && return 0; }
            after=$empty through=$newest page=''
            remember ;;
        projection_pending) # completed, but its bodies are not stored yet
            say "$thread" "$status"
            troubled=1
            return 0 ;;
        error)
            say "$thread" "$(field .code)"
            if [ -n "$page" ] && [ "$(field .code)" = E_OBSERVER_READ_INPUT ]; then
                page='' through=$newest # the page token does not fit: the series begins again
                remember
            else
                troubled=1
                return 0
            fi ;;
        *) # snapshot and ambiguous_parent answer a read without cursors: see observe-current.sh
            die "$thread: unexpected status $status" ;;
        esac
    done
}

one_round() {
    ask observer-threads
    if [ "$status" = error ]; then
        say observer-threads "$(field .code)"
        troubled=1
        return
    fi
    empty=$(field .emptyCursor)
    threads=$(field '.threads[] | "\(.host)-\(.thread_sha256) \(.throughCursor)"')
    while read -r thread newest; do
        [ -z "$thread" ] || follow
    done <<END
$threads
END
}

pause=''
while :; do
    troubled=''
    one_round
    [ -z "$once" ] || exit 0
    # While something is pending or fails, rounds come after 0.25 s, then later and later, up to 5 s.
    if [ -n "$troubled" ]; then
        case $pause in '') pause=0.25 ;; 0.25) pause=0.5 ;; 0.5) pause=1 ;; 1) pause=2 ;; 2) pause=4 ;; *) pause=5 ;; esac
    else
        pause=''
    fi
    sleep "${pause:-$interval}" || exit 1
done
