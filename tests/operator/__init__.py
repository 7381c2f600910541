"""Tests of the operator."""  # noqa: A005 - always imported as tests.operator
