import sys

if sys.argv[1:2] == ["models"]:
    from bench.models import main

    sys.exit(main(sys.argv[2:]))

from bench.run import main

sys.exit(main())
