"""Broker instances laid out as `artemis create` lays them out, each over a store with one queue."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from journalfs.clock import SystemClock
from journalfs.config.address_settings import Value
from journalfs.store.creating import create_store

QUEUE = "orders::orders"
PROFILE = """\
ARTEMIS_HOME='/opt/artemis'
ARTEMIS_INSTANCE='{instance}'
ARTEMIS_DATA_DIR='{data}'
ARTEMIS_OOME_DUMP='{instance}/log/oom_dump.hprof'
if [ -z "$JAVA_ARGS" ]; then
    JAVA_ARGS="-Xms512M -Dspare.dir={instance}/spare"
fi
"""
SCRIPT = """\
#!/usr/bin/env sh
if [ -z "$ARTEMIS_INSTANCE" ] ; then
  ARTEMIS_INSTANCE=`dirname "$0"`/..
fi
ARTEMIS_INSTANCE_ETC='{etc}'
if [ -z "$ARTEMIS_PROFILE" ] ; then
  if [ "$1" = "run" ]; then
    ARTEMIS_PROFILE='artemis.profile'
  else
    ARTEMIS_PROFILE="artemis-utility.profile"
  fi
fi
. "$ARTEMIS_INSTANCE_ETC/${{ARTEMIS_PROFILE}}"
exec "$JAVACMD" $JAVA_ARGS -Dartemis.instance="$ARTEMIS_INSTANCE" -Ddata.dir="$ARTEMIS_DATA_DIR" \\
    org.apache.activemq.artemis.boot.Artemis "$@"
"""
BOOTSTRAP = """\
<broker xmlns="http://activemq.apache.org/schema">
   <jaas-security domain="activemq"/>
   <server configuration="file:{etc}//broker.xml"/>
</broker>
"""
BROKER_XML = """\
<configuration xmlns="urn:activemq">
<core xmlns="urn:activemq:core">
<name>{name}</name>
{settings}
<journal-type>NIO</journal-type>
<journal-file-size>100K</journal-file-size>
<paging-directory>{data}/paging</paging-directory>
<bindings-directory>{data}/bindings</bindings-directory>
<journal-directory>{data}/journal</journal-directory>
<large-messages-directory>{data}/large-messages</large-messages-directory>
</core>
</configuration>
"""


def make_instance(root: Path, *, directories: str = "data", data: Path | None = None) -> Path:
    """Make an instance with a store of one queue. `directories`: where its broker.xml says that data lies."""
    lies_in = root / "data" if data is None else data
    for folder in (root / "bin", root / "etc"):
        folder.mkdir(parents=True)
    write_files(root, directories)
    queue: dict[str, Value] = {"journal-type": "NIO", "journal-file-size": 100 * 1024}
    create_store(lies_in, queue, SystemClock(), warn=lambda _: None, bare=False)
    return root


def write_files(root: Path, directories: str) -> None:
    """Write the files of an instance that is at `root`."""
    etc = root / "etc"
    (root / "bin/artemis").write_text(SCRIPT.format(etc=etc))
    (etc / "artemis.profile").write_text(PROFILE.format(instance=root, data=root / "data"))
    (etc / "bootstrap.xml").write_text(BOOTSTRAP.format(etc=etc))
    text = BROKER_XML.format(name=root.name, settings="", data=directories)
    (etc / "broker.xml").write_text(text)
    (etc / "login.config").write_text(f'activemq {{ x reload=true file="{etc}/users" ; }};\n')


def fingerprint(root: Path) -> dict[str, tuple[str, int]]:
    """Return content and time of each file below a directory: what shows whether anything was changed."""
    found = {}
    for folder, _, names in os.walk(root):
        for name in names:
            file = Path(folder, name)
            if file.is_symlink():
                continue
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            found[str(file.relative_to(root))] = (content, file.stat().st_mtime_ns)
    return found
