#!/bin/sh
# An Observer in shell: prints every completed turn of a project, of all its sessions, as one JSON line each, as soon as it
# completes. Needs jq.
#
#   observe.sh --project DIR --state DIR [--interval SECONDS] [--once]
#
# DIR of --state (or $OBSERVE_STATE) is this project's alone: it keeps one small file for each thread, with the cursor up
# to which everything has been printed. $THROUGHLINE is the program to ask, else `throughline`. It sleeps until a turn
# completes, and looks at all threads every 60 seconds (--interval) even so.
#
# A turn is printed before its cursor is stored, so after a crash or a resync a turn may come again, never not at all. It
# is the same turn if thread_sha256, source_sha256, user_sha256 and assistant_sha256 are the same.
set -u
umask 077

die() { printf 'observe: %s\n' "$1" >&2; exit 1; }
say() { printf 'observe: %s: %s\n' "$1" "$2" >&2; }

project='' state=${OBSERVE_STATE-} interval=60 once='' throughline=${THROUGHLINE:-throughline}
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

# Leaves $thread alone until the pause is over.
put_off() {
    say "$thread" "$1"
    later="$later $thread "
}

# Prints the turns of $thread from where we are to its cursor $newest.
follow() {
    case $later in *" $thread "*) return 0 ;; esac
    recall
    while [ "$after" != "$newest" ]; do
        [ -n "$page" ] || through=$newest
        ask observer-read --after-cursor "$after" --through-cursor "$through" ${page:+--page-token "$page"}
        case $status in
        delta | thread_switched | host_switched) # between two cursors of one thread it is always delta
            [ "$(field .historyTruncated)" = false ] || say "$thread" 'its oldest turns are no longer retained'
            field '.turns[]' || die 'cannot write the turns'
            page=$(field '.page.nextToken // ""')
            [ -n "$page" ] || after=$through
            remember ;;
        resync_required) # rolled back, replaced, or cut by its host: from the start
            came_from=$after after=$empty page=''
            remember
            # If we come from there, it changed just now, and the next round has a better cursor.
            [ "$came_from" != "$empty" ] || { put_off "$status" && return 0; }
            say "$thread" "$status" ;;
        projection_pending) # completed, but its bodies are not stored yet
            put_off "$status"
            return 0 ;;
        error)
            if [ -n "$page" ] && [ "$(field .code)" = E_OBSERVER_READ_INPUT ]; then
                say "$thread" "$(field .code)"
                page='' # the page token does not fit: the series begins again
                remember
            else
                put_off "$(field .code)"
                return 0
            fi ;;
        *) # snapshot and ambiguous_parent answer a read without cursors: see observe-current.sh
            die "$thread: unexpected status $status" ;;
        esac
    done
}

one_round() {
    thread=observer-threads
    ask observer-threads
    if [ "$status" = error ]; then
        current=''
        put_off "$(field .code)"
        return
    fi
    empty=$(field .emptyCursor)
    current=$(field '.threads[0].throughCursor // .emptyCursor') # that of the thread with the latest completion
    threads=$(field '.threads[] | "\(.host)-\(.thread_sha256) \(.throughCursor)"')
    while read -r thread newest; do
        [ -z "$thread" ] || follow
    done <<END
$threads
END
}

# Sleeps until a turn completes or it is time for a round: after $interval, or sooner when something has been put off. That
# comes again after 0.25 s, then later and later, up to 5 s. A turn that completes meanwhile makes a round of the others.
rest() {
    if [ -z "$later" ]; then
        pause='' due='' seconds=$interval
    elif [ -z "$due" ]; then
        case $pause in '') pause=0.25 ;; 0.25) pause=1 ;; 1) pause=4 ;; *) pause=5 ;; esac
        seconds=$pause due=$(($(date +%s) + ${pause%.*}))
    else
        seconds=$((due - $(date +%s)))
    fi
    status=timeout
    case $seconds in
    0 | -*) ;;
    0.25) sleep "$seconds" || exit 1 ;;
    *)
        if [ -n "$current" ]; then
            ask observer-wait --after-cursor "$current" --timeout-seconds "$seconds"
        else
            sleep "$seconds" || exit 1
        fi ;;
    esac
    case $status in
    timeout) later='' due='' ;;
    changed | resync_required) ;; # the round begins with new cursors
    ambiguous_parent) sleep 1 || exit 1 ;; # both hosts completed a turn in the same millisecond: the round reads either
    error)
        say observer-wait "$(field .code)"
        case $(field .code) in E_OBSERVER_WAIT_CANCELLED | E_OBSERVER_WAIT_ARGS) exit 1 ;; esac
        sleep 1 || exit 1 ;;
    *) die "observer-wait: unexpected status $status" ;;
    esac
}

pause='' later='' due=''
while :; do
    one_round
    [ -z "$once" ] || exit 0
    rest
done
