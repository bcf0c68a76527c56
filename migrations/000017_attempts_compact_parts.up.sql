-- A part of one insert is kept as one file until it has 128 MiB instead of 10: at full speed each insert
-- would otherwise write two files for each of eighty columns, which the first merge reads and removes.
ALTER TABLE attempts MODIFY SETTING min_bytes_for_wide_part = 134217728;
