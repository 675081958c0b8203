"""The demo's app. From this file's folder: `toolwright chat analyst --model openai:gpt-5-mini`."""

from pathlib import Path

from toolwright.cli.demo.desk import demo_app

app = demo_app(Path(__file__).parent)
