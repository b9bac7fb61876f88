"""The reproduction: settings, data, experiments, records, and what they say about the claims of the papers. Nothing in gdlib imports it."""
