"""What several tests share: comparison with eager, isolation in forked processes, checks of traces."""
