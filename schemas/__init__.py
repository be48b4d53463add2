"""The data contracts: job files, prompt catalogs, units, result tables, errors. Imports nothing else of the project."""
