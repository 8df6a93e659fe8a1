#!/bin/sh
# For the exit: mode: a command line tool whose exit statuses differ from "0 accepts, 1 rejects".
#     pytest conformance --impl="exit:sh docs/examples/exit_check.sh {path}"
# Replace "stc check" by your tool, and adapt the statuses. The harness passes your own variable, such as TOOL,
# to this script only with: --env TOOL.
${TOOL:-stc check} "$1" > /dev/null
status=$?
case $status in
0) exit 0 ;;                          # accepted
1 | 2) exit 1 ;;                      # rejected; this tool exits with 2 for an unreadable file
126 | 127) exit $status ;;            # the tool cannot run: says nothing about the reader
esac
if [ $status -gt 128 ]; then
    kill -$((status - 128)) $$        # killed by a signal: die by the same one, so that the report names it
fi
exit $status                          # anything else counts as a crash
