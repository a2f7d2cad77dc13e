"""``app.test_client()``: an application within the process that tests it."""
