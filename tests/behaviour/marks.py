"""`@requirement("S2-3.4-1")`: the test proves that statement of a manifest. Several ids may be given."""

import pytest

requirement = pytest.mark.requirement
