#!/bin/sh
# For the exit: mode: a command line tool whose exit statuses differ from "0 accepts, 1 refuses".
#     pytest conformance --impl="exit:sh docs/examples/exit_check.sh {path}"
# Put your tool in the place of "stc check", and its statuses below. A variable of yours, such as TOOL, reaches
# this script when the harness is told to hand it over: --env TOOL.
${TOOL:-stc check} "$1" > /dev/null
status=$?
case $status in
0) exit 0 ;;                          # accepted
1 | 2) exit 1 ;;                      # refused; this tool says 2 when it cannot read the file at all
126 | 127) exit $status ;;            # the tool cannot be run: nothing is known about the reader
esac
if [ $status -gt 128 ]; then
    kill -$((status - 128)) $$        # killed by a signal: die by the same one, so that it is named
fi
exit $status                          # anything else counts as a crash
