"""Names of our messages on Locust's own channel between master and workers."""

# master -> worker
START = "chaosflow_start"
MARK = "chaosflow_mark"
LIMITS = "chaosflow_limits"
HORIZON = "chaosflow_horizon"
STOP = "chaosflow_stop"
ACK = "chaosflow_ack"
# worker -> master
CONNECTED = "chaosflow_connected"
UP = "chaosflow_up"
CELLS = "chaosflow_cells"
NOTE = "chaosflow_note"
DONE = "chaosflow_done"
