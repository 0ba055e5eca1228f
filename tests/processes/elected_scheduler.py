"""`dray scheduler --leader-elect` with a lease so short that a test can wait for it to run out.

Arguments: the kubeconfig.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dray.cli.exit_codes import exit_code
from dray.client.leader import LeaderConfig, LeadershipLostError
from dray.client.lease import LeaseTimes
from dray.processes.scheduler import SchedulerOptions, run_scheduler
from dray.runtime.logs import setup_logs
from dray.runtime.tasks import run_until_signalled

if __name__ == "__main__":
    setup_logs()
    lease = LeaderConfig("kube-system", "dray-scheduler", times=LeaseTimes(5.0, 3.5, 0.5))
    options = SchedulerOptions(Path(sys.argv[1]), lease=lease)
    try:
        run_until_signalled(lambda: run_scheduler(options))
    except LeadershipLostError as error:
        sys.exit(exit_code(error))
