"""What the driver publishes: ResourceSlices, laid out, compared with those that are there, and written."""
