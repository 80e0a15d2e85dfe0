#!/bin/sh
# After installing and after removing: Lemonade's service, where it runs, starts anew with other variables.
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    for service in lemond lemonade-server; do
        systemctl try-restart "$service.service" || true
    done
fi
