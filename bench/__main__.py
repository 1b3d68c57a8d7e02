import sys

name = sys.argv[1] if len(sys.argv) > 1 else ""
if name == "models":
    from bench.models import main
elif name == "guards":
    from bench.guards import main
else:
    from bench.run import main

sys.exit(main(sys.argv[2:] if name in ("models", "guards") else sys.argv[1:]))
