"""The one loss and the one sampling loop of every process, on short records and on long ones."""
