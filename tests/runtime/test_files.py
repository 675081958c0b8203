"""Files of threads: attached to results and messages, written by handlers, all or none (S2 §5, D19)."""

import asyncio
import base64
import json
from collections.abc import Sequence
from typing import Any

import pytest

import toolwright as tw
from tests.behaviour.marks import requirement
from tests.runtime.rig import Rig, running
from tests.runtime.test_env import finished, script
from toolwright.adapters.memory import MemoryFiles
from toolwright.core.errors import InvalidRequest, NotFound, StoreError, TooLarge
from toolwright.core.files import FileChange
from toolwright.core.journal.units import Committed, PostMessage, SubmitResult, Unit
from toolwright.core.json_value import JSON
from toolwright.core.results import unchecked
from toolwright.core.value import changed
from toolwright.testing import ScriptedModel
from toolwright.wire.event import run_event
from toolwright.wiring.settings import Settings

pytestmark = pytest.mark.anyio

PNG = base64.b64encode(b"\x89PNG bytes").decode()


def attached(name: str = "chart.png", data: str = PNG, mime_type: str = "image/png") -> tw.Attachment:
    return tw.Attachment(name=name, mime_type=mime_type, data=data, width=8, height=6)


def drawing(*files: tw.Attachment | tw.AttachmentRef) -> tw.Tool:
    @tw.tool(description="Draw.")
    async def draw() -> tw.ToolResult:
        return tw.ToolResult.ok("Drawn.", files)

    return draw


def paths(files: Sequence[Any]) -> list[str]:  # files or references
    return [file.path for file in files]


@requirement("S2-5.2-1", "S2-5.2-2")
async def test_new_files_of_a_result_are_kept_and_linked_to_its_message() -> None:
    async with running(script("draw", "draw"), [drawing(attached(), attached("../CHART.PNG"))]) as rig:
        thread = await rig.rt.threads.create("tester")
        await finished(rig, thread.id)
        files = await rig.rt.files.list(thread.id)
        assert set(paths(files)) == {
            f"/attachments/{name}" for name in ("chart.png", "CHART-2.PNG", "chart-3.png", "CHART-4.PNG")
        }  # fmt: skip
        first = (await rig.transcript(thread.id))[2]
        assert paths(first.attachments) == ["/attachments/chart.png", "/attachments/CHART-2.PNG"]
        ref = first.attachments[0]
        assert (ref.name, ref.mime_type, ref.size, ref.width, ref.height) == (
            "chart.png",
            "image/png",
            10,
            8,
            6,
        )
        assert await rig.rt.files.read(thread.id, "attachments/chart.png") == b"\x89PNG bytes"
        [call, _] = await rig.rt.calls.list(status=None)
        assert call.result is not None
        assert "data" not in json.dumps(call.result)


@requirement("S2-5.3-1", "S2-5.3-4")
async def test_an_existing_file_is_referred_to_by_its_path_and_the_rest_comes_from_the_store() -> None:
    @tw.tool(description="Write.")
    async def write(state: tw.ThreadState) -> str:
        await state.write_file("notes/a.txt", "hällo")
        return "Written."

    wrong = tw.AttachmentRef(
        id="x", path="NOTES/A.txt", name="x", mime_type="x/x", size=1, description="Mine"
    )
    async with running(script("write", "draw"), [write, drawing(wrong)]) as rig:
        thread = await rig.rt.threads.create("tester")
        await finished(rig, thread.id)
        [ref] = (await rig.transcript(thread.id))[4].attachments
        assert (ref.path, ref.name, ref.mime_type, ref.size, ref.description) == (
            "/notes/a.txt", "a.txt", "text/plain", 6, "Mine",
        )  # fmt: skip
        assert len(await rig.rt.files.list(thread.id)) == 1


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (
            tw.AttachmentRef(id="x", path="/none.png", name="x", mime_type="x/x", size=1),
            "There is no file '/none.png'",
        ),
        (tw.AttachmentRef(id="x", path="/../x", name="x", mime_type="x/x", size=1), "cannot be used"),
        (attached("big.bin", base64.b64encode(b"x" * 2_000).decode()), "larger than the limit of 1000 bytes"),
        (unchecked(name="bad.bin", mime_type="x/x", data="no base64!"), "must be base64 text"),
    ],
)
async def test_all_files_of_a_result_are_kept_or_none(bad: Any, words: str) -> None:  # both kinds
    settings = Settings(max_attachment=1_000)
    async with running(
        script("draw"), [drawing(attached(), bad, attached("b.png"))], settings=settings
    ) as rig:
        thread = await rig.rt.threads.create("tester")
        await finished(rig, thread.id)
        result = (await rig.transcript(thread.id))[2]
        assert (result.status, words in result.content, result.attachments) == ("error", True, ())
        assert await rig.rt.files.list(thread.id) == []


@requirement("S2-5.3-1")
async def test_another_threads_file_is_as_if_it_were_not_there() -> None:
    ref = tw.AttachmentRef(id="x", path="/attachments/chart.png", name="x", mime_type="x/x", size=1)

    @tw.tool(description="Refer.")
    async def refer() -> tw.ToolResult:
        return tw.ToolResult.ok("Here.", (ref,))

    async with running(script("draw"), [drawing(attached()), refer]) as rig:
        await finished(rig, (await rig.rt.threads.create("tester")).id)
        async with running(script("refer"), [refer]) as other:
            thread = await other.rt.threads.create("tester")
            await finished(other, thread.id)
            assert (await other.transcript(thread.id))[2].status == "error"
            with pytest.raises(NotFound):
                await other.rt.files.read(thread.id, ref.path)


async def test_a_handlers_files_are_read_back_found_and_deleted_within_the_call_and_after_it() -> None:
    seen: list[Any] = []

    @tw.tool(description="Work.")
    async def work(state: tw.ThreadState) -> str:
        first = await state.write_file("/out/a.txt", b"one")
        await state.write_file("out/A.TXT", "two")
        await state.write_file("out/b.bin", b"\x00\x01", "application/x-own")
        await state.write_file("gone.txt", "gone")
        seen.append([await state.delete_file("GONE.txt"), await state.delete_file("gone.txt")])
        seen.append([await state.read_file("out/a.txt"), first.path])
        seen.append(paths(await state.list_files("/out")) + paths(await state.list_files()))
        seen.append(paths(await state.find_files("*.TXT")) + paths(await state.find_files("/out/*")))
        stat = await state.stat_file("out/b.bin")
        seen.append([await state.stat_file("none"), stat and (stat.mime_type, stat.size)])
        with pytest.raises(NotFound):
            await state.read_file("gone.txt")
        with pytest.raises(InvalidRequest):
            await state.write_file("../x", "x")
        with pytest.raises(InvalidRequest):
            await state.write_file("x", 5)  # type: ignore[arg-type]  # on purpose
        with pytest.raises(TooLarge):
            await state.write_file("x", b"x" * 1_001)
        return "Worked."

    @tw.tool(description="Look.")
    async def look(state: tw.ThreadState) -> list[str]:
        await state.delete_file("out/b.bin")
        return paths(await state.list_files())

    settings = Settings(max_attachment=1_000)
    async with running(script("work", "look"), [work, look], settings=settings) as rig:
        thread = await rig.rt.threads.create("tester")
        await finished(rig, thread.id)
        both = ["/out/a.txt", "/out/b.bin"]
        assert seen == [
            [True, False],
            [b"two", "/out/a.txt"],
            both + both,
            ["/out/a.txt", *both],
            [None, ("application/x-own", 2)],
        ]
        assert (await rig.transcript(thread.id))[4].content == '["/out/a.txt"]'
        assert paths(await rig.rt.files.list(thread.id)) == ["/out/a.txt"]
        assert await rig.rt.files.read(thread.id, "/OUT/A.txt") == b"two"


async def test_what_a_failing_handler_wrote_stays_and_what_a_cancelled_one_wrote_does_not() -> None:
    rigs: list[Rig] = []

    @tw.tool(description="Fail.")
    async def fail(state: tw.ThreadState) -> str:
        await state.write_file("kept.txt", "x")
        raise RuntimeError("no")

    @tw.tool(description="Hang.")
    async def hang(state: tw.ThreadState) -> str:
        await state.write_file("dropped.txt", "x")
        await rigs[0].rt.threads.cancel(state.thread_id)
        await state.execution.abort_signal.wait()
        raise TimeoutError  # an exception after the signal has the same effect as an error of the handler

    async with running(script("fail", "hang"), [fail, hang]) as rig:
        rigs.append(rig)
        run = await rig.run()
        assert run.status == "cancelled"
        assert paths(await rig.rt.files.list(run.thread_id))[-1] == "/kept.txt"


async def test_a_long_result_is_cut_for_the_model_and_kept_whole_in_a_file() -> None:
    text = "ä" * 2_000

    @tw.tool(description="Long.")
    async def long(kind: str) -> JSON:
        return text if kind == "text" else {"text": text}

    calls = [{"calls": [{"name": "long", "args": {"kind": kind}}]} for kind in ("text", "object")]
    async with running(
        ScriptedModel([*calls, {"text": "Done."}]), [long], settings=Settings(max_result_text=1_025)
    ) as rig:
        thread = await rig.rt.threads.create("tester")
        await finished(rig, thread.id)
        shown = (await rig.transcript(thread.id))[2]
        assert shown.content == (
            "ä" * 512 + "\n[The result has 4000 bytes, of which the first 1025 are shown. "
            "The whole is in the file /attachments/long-success.txt.]"
        )
        assert paths(shown.attachments) == ["/attachments/long-success.txt"]
        assert (await rig.rt.files.read(thread.id, "/attachments/long-success.txt")).decode() == text
        kept = await rig.rt.files.read(thread.id, "/attachments/long-success.json")
        assert json.loads(kept) == {"text": text}


async def test_a_long_error_is_cut_with_all_that_goes_with_it() -> None:
    @tw.tool(description="Fail.")
    async def fail() -> tw.ToolResult:
        rows: list[JSON] = ["x" * 100] * 100
        return tw.ToolResult.fail("No.", error_data={"rows": rows})

    async with running(script("fail"), [fail], settings=Settings(max_result_text=1_024)) as rig:
        thread = await rig.rt.threads.create("tester")
        await finished(rig, thread.id)
        shown = (await rig.transcript(thread.id))[2]
        assert len(shown.content) < 1_500
        assert "The whole is in the file /attachments/fail-error.txt" in shown.content
        kept = json.loads(await rig.rt.files.read(thread.id, "/attachments/fail-error.txt"))
        assert kept == {"error": "No.", "rows": ["x" * 100] * 100}


async def test_a_long_submitted_result_is_kept_the_same_way() -> None:
    outside = tw.Tool(name="outside", description="Ask.", kind="external", timeout=30.0)
    async with running(script("outside"), [outside], settings=Settings(max_result_text=1_024)) as rig:
        run = await rig.send()
        while not (calls := await rig.rt.calls.list()):  # noqa: ASYNC110 - a commit of the store sets no event
            await asyncio.sleep(0)
        assert await rig.rt.calls.submit(run.id, calls[0].id, "x" * 3_000) == "inline"
        await rig.rt.runs.wait(run.id, 10)
        shown = (await rig.transcript(run.thread_id))[2]
        assert "The whole is in the file /attachments/outside-success.txt" in shown.content
        assert await rig.rt.files.read(run.thread_id, "/attachments/outside-success.txt") == b"x" * 3_000


async def test_a_message_brings_its_files() -> None:
    async with running(script()) as rig:
        thread = await rig.rt.threads.create("tester")
        run = await rig.rt.threads.send(thread.id, "Look at these", [attached(), attached()])
        await rig.rt.runs.wait(run.id, 10)
        [message, _] = await rig.transcript(thread.id)
        assert paths(message.attachments) == ["/attachments/chart.png", "/attachments/chart-2.png"]
        assert message.attachments[0].digest is not None


@pytest.mark.parametrize(
    "files",
    [
        [unchecked(name="a", mime_type="x/x", data="?")],
        [unchecked(name="", mime_type="x/x", data=PNG)],
        ["x"],
        [attached(), attached(data=base64.b64encode(b"x" * 9_000).decode())],
    ],
)
async def test_a_message_with_an_invalid_file_is_not_sent(files: Any) -> None:  # of any form on purpose
    async with running(script(), settings=Settings(max_attachment=1_000)) as rig:
        thread = await rig.rt.threads.create("tester")
        with pytest.raises((InvalidRequest, TooLarge)):
            await rig.rt.threads.send(thread.id, "Hi", files)
        assert await rig.rt.files.list(thread.id) == []
        assert (await rig.rt.threads.get(thread.id)).run_id is None


async def test_a_result_and_a_message_that_want_one_path_both_find_one() -> None:
    async with running(script("draw"), [drawing(attached())]) as rig:
        thread = await rig.rt.threads.create("tester")
        raced: list[Unit] = []

        async def before(_: int, unit: Unit) -> None:
            if getattr(unit, "files", ()) and not raced:
                raced.append(unit)
                await rig.rt.threads.post(thread.id, "Mine first", [attached()])

        run = await rig.rt.threads.send(thread.id, "Go")
        rig.store.before = before
        run = await rig.rt.runs.wait(run.id, 10)
        assert run.status == "completed"
        said = await rig.transcript(thread.id)
        by_role = {message.role: paths(message.attachments) for message in said if message.attachments}
        assert by_role == {"user": ["/attachments/chart.png"], "tool": ["/attachments/chart-2.png"]}
        assert not isinstance(raced[0], PostMessage)


class Failing(MemoryFiles):
    """A file store that fails once: at the call of `put` with that number."""

    def __init__(self, number: int = 1) -> None:
        super().__init__()
        self._remaining = number

    async def put(self, content: bytes) -> str:
        self._remaining -= 1
        if self._remaining == 0:
            raise StoreError("away")
        return await super().put(content)


@pytest.mark.parametrize("number", [1, 2])
async def test_a_result_waits_for_a_file_store_that_is_away_for_a_moment(number: int) -> None:
    calls: list[str] = []

    @tw.tool(description="Draw.")
    async def draw() -> tw.ToolResult:
        calls.append("called")
        return tw.ToolResult.ok("Drawn.", (attached(), attached("b.png")))

    async with running(script("draw"), [draw], files=Failing(number)) as rig:
        thread = await rig.rt.threads.create("tester")
        await finished(rig, thread.id)
        kept = paths(await rig.rt.files.list(thread.id))
        assert (calls, kept) == (["called"], ["/attachments/b.png", "/attachments/chart.png"])


async def test_a_message_whose_files_cannot_be_kept_is_not_sent() -> None:
    async with running(script(), files=Failing()) as rig:
        thread = await rig.rt.threads.create("tester")
        with pytest.raises(StoreError):
            await rig.rt.threads.send(thread.id, "Hi", [attached()])
        assert (await rig.rt.threads.get(thread.id)).run_id is None


async def test_a_new_file_does_not_take_the_path_of_one_that_the_call_deletes() -> None:
    @tw.tool(description="Replace.")
    async def replace(state: tw.ThreadState) -> tw.ToolResult:
        await state.delete_file("/attachments/chart.png")
        return tw.ToolResult.ok("Replaced.", (attached(),))

    async with running(script("draw", "replace"), [drawing(attached()), replace]) as rig:
        thread = await rig.rt.threads.create("tester")
        await finished(rig, thread.id)
        assert paths(await rig.rt.files.list(thread.id)) == ["/attachments/chart-2.png"]


async def test_files_of_a_submitted_result_are_kept_or_the_result_is_refused() -> None:
    outside = tw.Tool(name="outside", description="Ask.", kind="external", timeout=30.0)
    async with running(script("outside"), [outside]) as rig:
        run = await rig.send()
        while not (calls := await rig.rt.calls.list()):  # noqa: ASYNC110 - a commit of the store sets no event
            await asyncio.sleep(0)
        with pytest.raises(InvalidRequest):
            wrong = unchecked(name="a", mime_type="x/x", data="?")
            await rig.rt.calls.submit(run.id, calls[0].id, tw.ToolResult.ok("x", (wrong,)))
        await rig.rt.calls.submit(run.id, calls[0].id, tw.ToolResult.ok("x", (attached(),)))
        await rig.rt.runs.wait(run.id, 10)
        assert paths((await rig.transcript(run.thread_id))[2].attachments) == ["/attachments/chart.png"]


@tw.tool(description="Photograph.")
async def photograph(state: tw.ThreadState) -> tw.ImageContent:
    return tw.ImageContent(mime_type="image/png", data="AAAA")


async def test_the_text_of_an_image_result_names_the_file_as_it_is_stored() -> None:
    async with running(script("photograph", "photograph"), [photograph]) as rig:
        thread = await rig.rt.threads.create("tester")
        await finished(rig, thread.id)
        said = [each for each in await rig.transcript(thread.id) if each.role == "tool"]
        for message, name in zip(said, ("image.png", "image-2.png"), strict=True):
            assert message.content == f"Attached: {name}"
            assert paths(message.attachments) == [f"/attachments/{name}"]


async def test_a_result_has_a_hundred_files_at_the_most() -> None:
    async with running(script("draw"), [drawing(*[attached()] * 101)]) as rig:
        thread = await rig.rt.threads.create("tester")
        await finished(rig, thread.id)
        assert "at most 100 files" in (await rig.transcript(thread.id))[2].content


class Counting(MemoryFiles):
    """A file store that counts how often bytes are stored."""

    def __init__(self) -> None:
        super().__init__()
        self.stored: list[bytes] = []

    async def put(self, content: bytes) -> str:
        self.stored.append(content)
        await asyncio.sleep(0)  # as a disk does
        return await super().put(content)


async def test_messages_with_files_sent_at_once_store_their_bytes_once_and_queue() -> None:
    files = Counting()
    async with running(script(), files=files) as rig:
        thread = await rig.rt.threads.create("tester")
        sent = [
            rig.rt.threads.send(
                thread.id, "Hi", [attached(data=base64.b64encode(b"%d %d" % (n, k)).decode()) for k in (0, 1)]
            )
            for n in range(12)
        ]
        await asyncio.gather(*sent)
        assert sorted(files.stored) == sorted(b"%d %d" % (n, k) for n in range(12) for k in (0, 1))
        assert len([unit for unit in rig.store.units if isinstance(unit, PostMessage)]) == 12
        assert len(await rig.rt.files.list(thread.id)) == 24


def of_another_process(unit: PostMessage, files: Sequence[FileChange]) -> PostMessage:
    """Return a message of another process, whose files take the same paths."""
    taken = [
        changed(each, file=changed(each.file, id=f"fil_other{number}"))
        for number, each in enumerate(files)
        if each.file is not None
    ]
    event = changed(unit.event, event_id="msg_other", content={"messageId": "msg_other", "content": "Mine"})
    run = changed(unit.run, id="run_other")
    return changed(unit, token="unit_other", event=event, run=run, queued=run_event(run), files=tuple(taken))


async def test_a_path_that_another_process_takes_costs_no_second_store() -> None:
    files, raced = Counting(), list[object]()
    async with running(script(), files=files) as rig:
        thread = await rig.rt.threads.create("tester")

        async def race(_: int, unit: Unit) -> None:
            if isinstance(unit, PostMessage) and not raced:
                raced.append(await rig.store.inner.commit(of_another_process(unit, unit.files)))

        rig.store.before = race
        await rig.rt.threads.send(thread.id, "Hi", [attached()])
        assert isinstance(raced[0], Committed)
        assert files.stored == [base64.b64decode(PNG)]
        assert len(await rig.rt.files.list(thread.id)) == 2


async def test_a_submitted_result_whose_path_is_taken_costs_no_second_store() -> None:
    outside = tw.Tool(name="outside", description="Ask.", kind="external", timeout=30.0)
    files, raced = Counting(), list[object]()
    async with running(script("outside"), [outside], files=files) as rig:
        run = await rig.send()
        while not (calls := await rig.rt.calls.list()):  # noqa: ASYNC110 - a commit of the store sets no event
            await asyncio.sleep(0)

        first = next(unit for unit in rig.store.units if isinstance(unit, PostMessage))

        async def race(_: int, unit: Unit) -> None:
            if isinstance(unit, SubmitResult) and not raced:
                raced.append(await rig.store.inner.commit(of_another_process(first, unit.files)))

        rig.store.before = race
        await asyncio.wait_for(
            rig.rt.calls.submit(run.id, calls[0].id, tw.ToolResult.ok("x", (attached(),))), 30
        )
        assert isinstance(raced[0], Committed)
        assert files.stored == [base64.b64decode(PNG)]
