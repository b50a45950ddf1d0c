"""Tables: what people have, read and given back filled, and completed records as tables to file."""

from tsimpute.tables.records import check_output as check_output
from tsimpute.tables.records import to_dataset as to_dataset
from tsimpute.tables.records import to_frame as to_frame
from tsimpute.tables.records import write_table as write_table
