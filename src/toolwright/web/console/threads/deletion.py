"""Deleting a thread, once whoever asks for it has been told what goes with it."""

from nicegui import ui

from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, box, words


def ask_to_delete(visit: Visit, thread_id: str) -> None:
    """Ask, with the choice to cancel first what is at work."""
    dialog = ui.dialog()
    dialog.on("hide", dialog.delete)
    with dialog, ui.card(), box("div", "stack"):
        words("Delete this thread?", "h2")
        words("Its messages, files, values and the threads below it are gone for good.", "p", "quiet")
        cancels = ui.checkbox("Cancel first what is at work in it")

        async def delete() -> None:
            await visit.permits.thread(visit.caller, thread_id)
            await visit.runtime.threads.delete(thread_id, bool(cancels.value))

        async def confirmed() -> None:
            if await visit.act(delete(), "The thread is deleted."):
                dialog.close()
                ui.navigate.to("/threads")

        with box("div", "row"):
            action("Delete it", confirmed, kind="danger")
            action("Keep it", dialog.close)
    dialog.open()
