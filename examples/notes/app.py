"""An agent whose tools are those of an MCP server, which is the process of `notes.py`.

export TOOLWRIGHT_MODEL=openai:gpt-6.1-terra OPENAI_API_KEY=…
toolwright doctor
toolwright chat keeper
"""

import sys
from pathlib import Path

import toolwright as tw

NOTES = {
    "command": sys.executable,
    "args": [str(Path(__file__).with_name("notes.py"))],
    "holdChanges": True,  # a tool whose definition changes after its first call is held back
}
keeper = tw.Agent("keeper", tw.Prompt("keeper", "You keep the notes. Be brief."))
app = tw.App(agents=[keeper], mcp={"notes": NOTES})
