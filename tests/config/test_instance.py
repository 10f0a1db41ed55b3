"""The configuration of an instance, found as its start script finds it; nothing of that is run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from journalfs.config.files import CONFIG_VARIABLE
from journalfs.config.layout import StoreLayout, locate_store
from journalfs.errors import ConfigError, NotAStore
from tests.config.test_broker_xml import document

SCRIPT = """#!/usr/bin/env sh
if [ -z "$ARTEMIS_INSTANCE" ] ; then
  PRG="$0"
  while [ -h "$PRG" ] ; do
    ls=`ls -ld "$PRG"`
  done
  ARTEMIS_INSTANCE=`cd "$ARTEMIS_INSTANCE/.." && pwd`
fi
ARTEMIS_INSTANCE_ETC='THERE'
if [ -z "$ARTEMIS_PROFILE" ] ; then
  if [ "$1" = "run" ]; then
    ARTEMIS_PROFILE='artemis.profile'
  else
    ARTEMIS_PROFILE="artemis-utility.profile"
  fi
fi
if ! test -f "$ARTEMIS_INSTANCE_ETC/${ARTEMIS_PROFILE}"; then
   echo Error: "$ARTEMIS_INSTANCE_ETC/${ARTEMIS_PROFILE}" does not exist.
   exit 1
fi
. "$ARTEMIS_INSTANCE_ETC/${ARTEMIS_PROFILE}"
cygwin=false;
case "`uname`" in
  CYGWIN*) cygwin=true
    ;;
esac
if $cygwin ; then
  ARTEMIS_INSTANCE=`cygpath --unix "$ARTEMIS_INSTANCE"`
fi
exec "$JAVACMD" \\
    $JAVA_ARGS \\
    $ARTEMIS_CLUSTER_PROPS \\
    -Dartemis.instance="$ARTEMIS_INSTANCE" \\
    -Ddata.dir="$ARTEMIS_DATA_DIR" \\
    $JAVA_ARGS_APPEND \\
    org.apache.activemq.artemis.boot.Artemis "$@"
"""
PROFILE = """# a comment's quote
ARTEMIS_HOME='/opt/artemis'
ARTEMIS_INSTANCE='HERE'
ARTEMIS_DATA_DIR='@STORE@'
STORES=/srv
if [ -z "$JAVA_ARGS" ]; then
    JAVA_ARGS="-Xms512M -Dstore.root=${ARTEMIS_INSTANCE}/elsewhere -Dmode=${MODE:-NIO}"
fi
JAVA_ARGS_APPEND="-Dattempts=4"
touch RAN; if [ "$1" = "run" ]; then :
fi
"""
CORE = """<journal-directory>${data.dir}/journal</journal-directory>
<bindings-directory>${data.dir}/bindings</bindings-directory>
<journal-type>${mode}</journal-type>
<address-settings><address-setting match="#">
<max-delivery-attempts>${attempts}</max-delivery-attempts></address-setting></address-settings>"""
BOOTSTRAP = '<broker xmlns="http://activemq.apache.org/schema"><server configuration="NAMED"/></broker>'

Lay = Callable[..., Path]


@pytest.fixture
def lay(tmp_path: Path) -> Lay:
    def lay(
        *,
        data: str = "data",
        etc: str = "etc",
        name: str = "broker.xml",
        named: str = "${artemis.instance.etc.uri}/broker.xml",
        core: str = CORE,
        script: bool = True,
    ) -> Path:
        root = tmp_path / "broker"
        for folder in (root / "bin", root / etc, root / data / "journal"):
            folder.mkdir(parents=True, exist_ok=True)
        (root / data / "journal" / "activemq-data-1.amq").touch()
        profile = PROFILE.replace("HERE", str(root)).replace("@STORE@", str(root / data))
        (root / etc / "artemis.profile").write_text(profile.replace("RAN", str(tmp_path / "ran")))
        (root / etc / "bootstrap.xml").write_text(BOOTSTRAP.replace("NAMED", named))
        (root / etc / name).parent.mkdir(exist_ok=True)
        (root / etc / name).write_text(document(core))
        if script:
            (root / "bin" / "artemis").write_text(SCRIPT.replace("THERE", str(root / etc)))
        return root

    return lay


def attempts(layout: StoreLayout) -> object:
    assert layout.config is not None
    return layout.config.address_settings[0].values["max-delivery-attempts"].value


@pytest.mark.rule("S-167")
@pytest.mark.parametrize("script", [True, False])
@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("broker.xml", "${artemis.instance.etc.uri}/broker.xml"),
        ("orders-broker.xml", "${artemis.instance.etc.uri}/orders-broker.xml"),
        ("more/b r.xml", "${artemis.instance.etc.uri}more/b%20r.xml"),
        ("orders-broker.xml", "orders-broker.xml"),
    ],
)
@pytest.mark.parametrize("asked", ["", "data", "etc/FILE"])
def test_what_bootstrap_names(lay: Lay, script: bool, name: str, named: str, asked: str) -> None:
    if "/" in asked and "/" in name:
        asked = ""  # a file further down says nothing of where the instance is
    root = lay(name=name, named=named, script=script)
    layout = locate_store(root / asked.replace("FILE", name), environment={})
    assert layout.journal_dir == root / "data" / "journal"
    assert layout.config is not None
    assert layout.config.file == root / "etc" / name
    assert layout.config.core_value("journal-type") == "NIO"
    assert attempts(layout) == 4
    assert layout.warnings == ()
    assert not (root.parent / "ran").exists(), "nothing is run"


@pytest.mark.rule("S-167")
def test_data_and_etc_elsewhere(lay: Lay) -> None:
    root = lay(data="far/store", etc="conf")
    layout = locate_store(root, environment={})
    assert layout.journal_dir == root / "far" / "store" / "journal"
    assert attempts(layout) == 4


@pytest.mark.rule("S-167")
def test_a_copy_of_an_instance_is_its_own(lay: Lay, tmp_path: Path) -> None:
    root = lay()
    copy = root.rename(tmp_path / "copy")
    lay()
    layout = locate_store(copy, environment={})
    assert layout.journal_dir == copy / "data" / "journal"
    assert any("was made as" in warning for warning in layout.warnings)


@pytest.mark.rule("S-167")
def test_what_takes_running_is_said(lay: Lay) -> None:
    root = lay()
    profile = root / "etc" / "artemis.profile"
    profile.write_text(profile.read_text().replace("ARTEMIS_DATA_DIR=", "ARTEMIS_DATA_DIR=$(touch RAN)"))
    warnings = locate_store(root, environment={}).warnings
    assert any("ARTEMIS_DATA_DIR is takes running it" in warning for warning in warnings)


@pytest.mark.rule("S-167")
def test_what_a_failure_comes_from_is_said_with_it(lay: Lay) -> None:
    root = lay(core=CORE.replace("${data.dir}", "${store.place}"))
    (root / "data").rename(root / "gone")
    with pytest.raises(NotAStore, match=r"\$\{store\.place\} is not known here"):
        locate_store(root, environment={})


@pytest.mark.rule("S-168")
def test_a_configuration_said_by_hand(lay: Lay, tmp_path: Path) -> None:
    root = lay()
    bare = (root / "data").rename(tmp_path / "backup")
    chosen = {CONFIG_VARIABLE: str(root / "etc" / "broker.xml")}
    layout = locate_store(bare, environment=chosen)
    assert (layout.journal_dir, attempts(layout)) == (bare / "journal", 4)
    assert locate_store(bare, environment={}).config is None
    with pytest.raises(ConfigError, match="is no file"):
        locate_store(bare, environment={CONFIG_VARIABLE: "/missing"})


@pytest.mark.rule("S-167")
@pytest.mark.parametrize("uri", ["file:{}/", "file://{}/", "{}", None])
@pytest.mark.parametrize("etc", ["my etc", "100%25 ours", "é"])
def test_an_etc_with_an_odd_name_elsewhere(lay: Lay, tmp_path: Path, uri: str | None, etc: str) -> None:
    """Its address has escapes, as `artemis create` writes it."""
    root = lay()
    moved = tmp_path / "elsewhere" / etc
    moved.parent.mkdir()
    (root / "etc").rename(moved)
    script = SCRIPT.replace("THERE", str(moved))
    if uri is not None:
        said = f"ARTEMIS_INSTANCE_ETC_URI='{uri.format(quote(str(moved)))}'"
        script = script.replace('if [ -z "$ARTEMIS_PROFILE"', f'{said}\nif [ -z "$ARTEMIS_PROFILE"')
    (root / "bin/artemis").write_text(script)
    layout = locate_store(root, environment={})
    assert layout.config is not None
    assert layout.config.file == moved / "broker.xml"
