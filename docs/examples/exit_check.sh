#!/bin/sh
# Adapts a command-line tool to the exit: mode if its exit statuses differ from "0 accepts, 1 rejects".
#     pytest conformance --impl="exit:sh docs/examples/exit_check.sh {path}"
# Replace "stc check" with your tool and adapt the statuses. The harness passes a variable of yours, such as TOOL,
# to this script only if you use --env TOOL.
${TOOL:-stc check} "$1" > /dev/null
status=$?
case $status in
0) exit 0 ;;                          # accepted
1 | 2) exit 1 ;;                      # rejected; this tool exits with 2 if it cannot read the file
126 | 127) exit $status ;;            # the tool could not run, which says nothing about the reader
esac
if [ $status -gt 128 ]; then
    kill -$((status - 128)) $$        # killed by a signal: die from the same signal so that the report names it
fi
exit $status                          # anything else counts as a crash
