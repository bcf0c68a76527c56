package emit

const childVariable = "TURNOUT_TEST_EMIT_CHILD"

func child() {}
