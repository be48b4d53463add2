"""Labels that people give to the texts of an event-direction run (study 2.4.4, 3.3): form out, form in, agreement, consensus."""
