"""To and from other software: model configurations, launch configurations, logs, measurements."""
