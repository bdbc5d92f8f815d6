"""The page shows what the command line answers, whatever order its controls are moved in."""

from __future__ import annotations

import html
import json
import os
import random
import re
from typing import Any

import pytest

pytest.importorskip("starlette")
from planner.base import numbers
from planner.base.errors import PlanError
from planner.documents import yaml_nodes
from planner.engine.in_turn import keep_graphs
from planner.questions import loading
from planner.questions.plan_questions import evaluate
from planner.report.answer import answer_of, gib
from planner.serve import controls, page
from tests.browser import Browser
from tests.conftest import ROOT, leave_to_night, read_data
from tests.serve.conftest import Server

PLANS = ("llama70b_h100x1024", "mixtral8x7b_h100x1024", "gpt2small_hgx-h100")
#: The text of the plan that a page shows.
TEXT = "document.querySelector('#text').value"
#: What somebody types into the fields of a plan, some of it wrong.
TYPED = read_data("serve")["typed_values"]


def moves(text: str, plan: Any, chance: random.Random) -> tuple[str, str | None]:
    """One control, and what somebody chooses of it; sometimes its rule again."""
    known = controls.list_settings()
    usual = [key for keys in controls.USUAL.values() for key in keys if key != "cluster"]
    key = chance.choice([*usual, *TYPED])
    root = yaml_nodes.parse_yaml(text, "plan.yaml")
    shown = controls.shown_in(root, plan, [key])[key]
    words = list(shown.sizes or ()) or [word for _, word in known[key].options]
    if key in TYPED:
        words = [*TYPED[key]]
    if shown.idle or not words:
        key, words = "training.recompute", ["none", "selective", "full"]
    if shown.value is not None and "." in key and chance.random() < 0.1:
        return key, None
    return key, str(chance.choice(words))


def first_screen(plan: Any) -> list[str]:
    answer = answer_of(evaluate(plan))
    numbers = [f"{one.number} {one.unit} {one.low} {one.high}" for one in answer.numbers[:4]]
    return [answer.word, answer.text, *numbers]


def seen(said: dict[str, Any]) -> list[str]:
    """The same of a fragment of the page."""
    text = said["html"]
    numbers = []
    for part in re.findall(r'<div class="number">(.*?)</dd>', text, re.S):
        number, unit = re.findall(r'">([^<]*)</a><span class="unit">([^<]*)<', part)[0]
        ends = re.findall(r'aria-label="(.*?) to (.*?), 5th', part)
        numbers.append(html.unescape(" ".join((number, unit, *(ends[0] if ends else ("", ""))))))
    return [said["verdict"], said["sentence"], *numbers]


def held_and_healed(said: dict[str, Any], key: str, word: str) -> None:
    """What followed a change makes a plan in which the key is as somebody set it."""
    assert said["followed"] and all(one["why"] for one in said["followed"])
    held = page.load_from_text(page.write_keys(said["text"], {key: word}))
    assert page.load_from_text(said["text"]).get(key) == held.get(key)
    assert all(one["undo"][key] == word for one in said["followed"])


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("seed", leave_to_night(range(40), range(12)))
def test_any_sequence_of_controls_is_what_set_says(seed: int) -> None:
    chance = random.Random(seed)
    name = PLANS[seed % len(PLANS)]
    text = page.read_preset(name)
    path, given = ROOT / "presets" / f"{name}.yaml", dict[str, str]()
    with keep_graphs():
        for _ in range(4):
            plan = page.load_from_text(text)
            key, word = moves(text, plan, chance)
            said = page.call_page("change", {"text": text, "set": {key: word}})
            assert json.dumps(said)
            if word is None:  # `--set` knows no "unstated": what the text states now is held to
                if "faults" not in said:
                    text, path, given = said["text"], path, {}
                    assert seen(said) == first_screen(page.load_from_text(text))
                break
            try:
                wanted = loading.load(path, [f"{k}={v}" for k, v in {**given, key: word}.items()])
            except PlanError:
                if "faults" in said:
                    assert all(fault["message"] for fault in said["faults"])
                    continue
                held_and_healed(said, key, word)
                break
            assert "faults" not in said, (key, word, said["faults"])
            given.pop(key, None)
            text, given[key] = said["text"], word
            assert seen(said) == first_screen(wanted)


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("name", PLANS)
def test_what_would_not_fit_is_what_the_planner_says_of_it(name: str) -> None:
    text = page.read_preset(name)
    refused = page.call_page("more", {"text": text})["refused"]
    assert refused
    for key, options in refused.items():
        for word, why in options.items():
            said = page.call_page("change", {"text": text, "set": {key: word}})
            if why.startswith("does not fit"):
                assert said["verdict"] == "Does not fit", (key, word)
            else:
                assert "faults" in said or said["followed"], (key, word)


@pytest.mark.slow(every=5)
@pytest.mark.parametrize(
    "change",
    [{}, {"training.micro_batch": "4"}, {"training.recompute": "none"}, {"cluster.devices": "256"}],
)
@pytest.mark.parametrize("name", PLANS)
def test_a_row_of_advice_that_is_taken_makes_the_plan_that_it_names(
    name: str, change: dict[str, str]
) -> None:
    first = page.call_page("change", {"text": page.read_preset(name), "set": change})
    said = page.call_page("more", {"text": first["text"]})
    rows = re.findall(r"(?s)<tr data-set='(.*?)'>(.*?)</tr>", said["advice"] + said["html"])
    assert rows or first["verdict"] == "Fits"
    for takes, cells in rows:
        taken = page.call_page("change", {"text": first["text"], "set": json.loads(takes)})
        assert "faults" not in taken and taken["followed"] == [], takes
        assert taken["verdict"] == "Fits"
        result = evaluate(page.load_from_text(taken["text"]))
        (memory,) = re.findall(r'data-unit=" GiB">(.*?)<', cells)
        assert gib(result["memory.process"].value) == memory
        told = result["time.training_days"]
        told = told.alternative if result.assumes_utilisation else told
        for days in re.findall(r'data-unit=" days">(.*?)<', cells):
            assert days == numbers.text(told.number, style="table")


def test_every_key_of_the_schema_has_one_control_with_a_name() -> None:
    shell = page.render_shell()
    keys = re.findall(r'data-key="?([\w.]+)', shell)
    assert len(keys) == len(set(keys)) == len(controls.list_settings()) > 400
    for key in ("model.moe.experts", "model.moe.top_k", "model.tied_embeddings",
                "training.bytes.weight", "training.bytes.reduce", "parallelism.expert",
                "parallelism.context", "parallelism.replicate", "training.optimizer"):  # fmt: skip
        assert key in keys, key
    ids = re.findall(r'\bid="([\w.-]+)', shell)
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(("key", "typed", "meant"), read_data("serve")["written_in_a_field"])
def test_a_field_takes_what_people_write_and_what_it_shows(
    key: str, typed: str, meant: str
) -> None:
    text = page.read_preset(page.FIRST)
    said = page.call_page("change", {"text": text, "set": {key: typed}})
    assert "faults" not in said and said["followed"] == []
    wanted = loading.load(ROOT / "presets" / f"{page.FIRST}.yaml", [f"{key}={meant}"])
    assert page.load_from_text(said["text"]).get(key) == wanted.get(key)


def test_a_number_that_is_typed_is_written_without_quotes() -> None:
    typed = {"text": page.read_preset(page.FIRST), "set": {"training.micro_batch": "4"}}
    assert re.search(r"micro_batch: 4\b", page.call_page("change", typed)["text"])


def test_a_configuration_becomes_the_model_of_the_plan() -> None:
    given = json.dumps(read_data("connect")["llama_1b_config"])
    text = page.read_preset("gpt2small_hgx-h100")
    said = page.call_page("open", {"text": text, "file": given})
    assert "faults" not in said, said
    assert page.load_from_text(said["text"]).get("model.layers") is not None
    wrong = page.call_page("open", {"text": text, "file": '{"model_type": "llama"'})
    assert wrong["faults"]


def test_a_launch_file_becomes_the_plan_with_the_current_model_where_it_has_none() -> None:
    text = page.read_preset("gpt2small_hgx-h100")
    given = (
        "base_model: NousResearch/Meta-Llama-3-8B\nadapter: lora\nlora_r: 8\nmicro_batch_size: 2\n"
    )
    said = page.call_page("open", {"text": text, "file": given, "called": "../a run.yml"})
    plan = page.load_from_text(said["text"])
    assert plan.get("training.stack").startswith("axolotl") and plan.get("model.layers") == 32
    assert "# no key says cluster.accelerator: an assumption" in said["text"]
    given = json.dumps({"zero_optimization": {"stage": 3}, "train_micro_batch_size_per_gpu": 4})
    for now, layers in ((text, 12), ("model: [", None)):  # a text that cannot be read has no model
        said = page.call_page("open", {"text": now, "file": given, "called": "ds.json"})
        found = page.load_from_text(said["text"]).get("model.layers") if layers else said["faults"]
        assert found == layers if layers else "no key has the model" in str(found)


def test_faults_of_the_text_have_their_line() -> None:
    said = page.call_page(
        "answer", {"text": "model: llama3-8b\ntraining:\n  sequence_lenght: 4096\n"}
    )
    (fault,) = [one for one in said["faults"] if "sequence_lenght" in one["message"]]
    assert (fault["line"], fault["column"]) == (3, 3) and "sequence_length" in fault["message"]


@pytest.mark.slow
def test_a_layout_that_is_left_open_is_spelled_out_where_it_is_changed() -> None:
    text = re.sub(r"(?ms)^parallelism:.*?(?=^\S|\Z)", "parallelism: auto\n",
                  page.read_preset("gpt2small_hgx-h100"))  # fmt: skip
    assert "parallelism: auto" in text
    said = page.call_page("change", {"text": text, "set": {"parallelism.zero": "1"}})
    assert "faults" not in said, said
    assert page.load_from_text(said["text"]).get("parallelism.zero") == 1


def test_names_of_documents_are_harmless() -> None:
    name = "<img src=x onerror=alert(1)>"
    text = re.sub(r"(?m)^name:.*$", f"name: '{name}'", page.read_preset("gpt2small_hgx-h100"))
    said = page.call_page("answer", {"text": text})
    assert "<img" not in said["html"] + said["strip"] and "faults" not in said


# In a browser ------------------------------------------------------------------------------------


def begin(browser: Browser, server: Server, fragment: str = "") -> None:
    browser.visit(f"http://127.0.0.1:{server.port}/{fragment}")
    browser.wait("document.body?.dataset.ready === '1'")


def moved(browser: Browser, key: str, word: str) -> float:
    """Choose a word of a control and wait for its answer; returns the milliseconds that it took."""
    browser.run(f"""(() => {{
      const control = document.querySelector('.control[data-key="{key}"]');
      const begun = performance.now();
      window.took = null;
      const seen = new MutationObserver(() => {{
        seen.disconnect();
        window.took = performance.now() - begun;
      }});
      seen.observe(document.body, {{attributeFilter: ["data-answered"]}});
      const radio = control.querySelector('input[type=radio][value={json.dumps(word)}]');
      if (radio) return radio.click();
      const field = control.querySelector('input, select');
      field.value = {json.dumps(word)};
      field.dispatchEvent(new Event('change', {{bubbles: true}}));
    }})()""")
    return float(browser.wait("window.took"))


#: Of a hundred sequences (SEQUENCES=100) those that each run tries.
SEQUENCES = int(os.environ.get("SEQUENCES", "3"))


def check_moves(browser: Browser, seed: int, count: int) -> list[float]:
    """Write a plan into the page that is open and choose words of its controls, each of which shows
    what `--set` says; returns the milliseconds that each took."""
    name, chance, times = PLANS[seed % len(PLANS)], random.Random(seed), list[float]()
    path, text = ROOT / "presets" / f"{name}.yaml", page.read_preset(name)
    browser.run(f"""(() => {{ const area = document.querySelector('#text');
      area.value = {json.dumps(text)};
      area.dispatchEvent(new Event('input', {{bubbles: true}})); }})()""")
    title = json.dumps(page.load_from_text(text).name)
    browser.wait(f"document.querySelector('#title').textContent === {title} && "
         "!document.querySelector('#answered-plan').classList.contains('stale')")  # fmt: skip
    given: dict[str, str] = {}
    for _ in range(count):
        plan = page.load_from_text(text)
        key, word = moves(text, plan, chance)
        shown = controls.shown_in(yaml_nodes.parse_yaml(text, "plan.yaml"), plan, [key])[key]
        if word is None or (shown.value or shown.rule.split(" ")[0]) == word:
            continue  # a radio that is chosen already says nothing
        times.append(moved(browser, key, word))
        try:
            wanted = loading.load(path, [f"{k}={v}" for k, v in {**given, key: word}.items()])
        except PlanError:
            seen_at = ".chip, .control.wrong, #faults p"
            assert browser.run(f"document.querySelector('{seen_at}').textContent")
            break
        given[key] = word
        text = browser.run(TEXT)
        html = browser.run("document.querySelector('#answered-plan').innerHTML")
        told = browser.run("document.querySelector('.verdict p').textContent").strip()
        word = browser.run("document.querySelector('.verdict .state').textContent")
        assert seen({"html": html, "verdict": word, "sentence": told}) == first_screen(wanted)
    return times


@pytest.mark.slow
def test_controls_in_a_browser_show_what_set_says(browser: Browser, server: Server) -> None:
    times = []
    for seed in range(SEQUENCES):
        begin(browser, server)
        times += check_moves(browser, seed, 4)
    times.sort()
    at = {share: times[share * (len(times) - 1) // 100] for share in (50, 95)}
    print(f"{len(times)} moves; " + ", ".join(f"{k} %: {v:.0f} ms" for k, v in at.items()))
    assert not browser.problems


@pytest.mark.slow
def test_controls_that_are_moved_at_once_are_all_heard(browser: Browser, server: Server) -> None:
    begin(browser, server)
    browser.run("""(() => {
      const area = document.querySelector('#text');
      area.value = area.value.replace('tokens: 15T', 'tokens: 2T');
      area.dispatchEvent(new Event('input', {bubbles: true}));
      for (const [key, word] of [['training.micro_batch', '2'], ['parallelism.zero', '3']])
        document.querySelector(`[data-key="${key}"] input[value="${word}"]`).click();
    })()""")
    browser.wait("document.querySelector('#state').textContent === 'up to date'")
    text = browser.run(TEXT)
    assert "tokens: 2T" in text and "micro_batch: 2" in text and "zero: 3" in text


@pytest.mark.slow
def test_the_address_is_the_plan(browser: Browser, server: Server) -> None:
    begin(browser, server)
    moved(browser, "parallelism.zero", "2")
    text = browser.run(TEXT)
    assert "zero: 2" in text
    fragment = browser.wait("location.hash.startsWith('#p=') && location.hash")
    begin(browser, server, fragment)
    assert browser.run(TEXT) == text
    checked = "document.querySelector('[data-key=\"parallelism.zero\"] :checked').value"
    assert browser.run(checked) == "2"


@pytest.mark.slow
def test_two_plans_stand_beside_each_other(browser: Browser, server: Server) -> None:
    begin(browser, server)
    browser.run("document.querySelector('#compare').click()")
    browser.wait("document.querySelector('.compared') !== null")
    moved(browser, "training.micro_batch", "2")
    assert "1→2" in browser.run("document.querySelector('.what').textContent")
    differs = "[...document.querySelectorAll('.control.differs')].map(c => c.dataset.key).join()"
    assert "training.micro_batch" in browser.run(differs)
    assert browser.run("document.querySelectorAll('#lines .changed-line').length") == 1


@pytest.mark.slow
def test_the_keyboard_and_a_screen_reader_reach_everything(
    browser: Browser, server: Server
) -> None:
    begin(browser, server)
    unnamed = browser.run("""[...document.querySelectorAll('input, select, textarea, button')]
      .filter(e => !(e.labels?.length || e.getAttribute('aria-label') ||
        e.getAttribute('aria-labelledby') || e.textContent.trim()))
      .map(e => e.id || e.outerHTML.slice(0, 80)).join()""")
    assert unnamed == ""
    before = browser.run("document.body.dataset.answered")
    browser.run("document.querySelector('[data-key=\"training.micro_batch\"] :checked').focus()")
    for kind in ("keyDown", "keyUp"):
        browser.send("Input.dispatchKeyEvent", type=kind, key="ArrowRight", code="ArrowRight",
                     windowsVirtualKeyCode=39)  # fmt: skip
    browser.wait(f"document.body.dataset.answered !== {json.dumps(before)}")
    assert "micro_batch: 2" in browser.run(TEXT)
    assert browser.run("document.activeElement.value") == "2"


@pytest.mark.slow
def test_a_fault_in_the_text_is_marked_at_its_line(browser: Browser, server: Server) -> None:
    begin(browser, server)
    browser.run("""(() => { const area = document.querySelector('#text');
      area.value = area.value.replace('sequence_length', 'sequence_lenght');
      area.dispatchEvent(new Event('input', {bubbles: true})); })()""")
    browser.wait("document.querySelector('#lines .wrong') !== null")
    line = browser.run("document.querySelector('#lines .wrong').textContent")
    assert f"line {line}" in browser.run("document.querySelector('#faults').textContent")
    assert browser.run("document.querySelector('#answered-plan.stale') !== null")


@pytest.mark.slow
def test_a_row_of_advice_is_taken_by_a_click_and_undone(browser: Browser, server: Server) -> None:
    begin(browser, server)
    moved(browser, "training.micro_batch", "8")
    before = browser.run(TEXT)
    browser.wait("document.querySelector('#advice tr[data-set]') !== null")
    words = browser.run("document.querySelector('#advice tr[data-set] button').textContent")
    browser.run("document.querySelector('#advice tr[data-set] td').click()")
    chip = json.dumps(f"{words}: taken Undo")
    browser.wait(f"document.querySelector('.chip')?.textContent === {chip}")
    assert browser.run("document.querySelector('.verdict .state').textContent") == "Fits"
    assert browser.run(TEXT) != before
    browser.run("document.querySelector('.chip button').click()")
    browser.wait(f"document.querySelector('#text').value === {json.dumps(before)}")
    browser.wait("document.querySelector('.chip') === null")
    assert not browser.problems


@pytest.mark.slow
def test_back_undoes_the_first_change_and_forward_makes_it_again(
    browser: Browser, server: Server
) -> None:
    begin(browser, server)
    first = browser.run(TEXT)
    moved(browser, "parallelism.zero", "2")
    second = browser.run(TEXT)
    browser.wait("location.hash.startsWith('#p=')")
    address = browser.run("location.hash")
    moved(browser, "training.micro_batch", "2")
    browser.wait(f"location.hash !== {json.dumps(address)}")  # which follows the answer
    for move, text in (("back", second), ("back", first), ("forward", second)):
        browser.run(f"history.{move}()")
        browser.wait(f"document.querySelector('#text').value === {json.dumps(text)}")
        browser.wait("document.querySelector('#state').textContent === 'up to date'")
        zero = "document.querySelector('[data-key=\"parallelism.zero\"] :checked').value"
        assert browser.run(zero) == ("1" if text == first else "2")


@pytest.mark.slow
def test_what_one_model_brought_follows_the_next_and_what_is_set_stays(
    browser: Browser, server: Server
) -> None:
    begin(browser, server)
    length, text = "training.sequence_length", "document.querySelector('#text').value"

    def pick(model: str, key: str = "model") -> tuple[Any, str]:
        moved(browser, key, model)
        chips = browser.run("document.querySelector('#followed').textContent")
        return page.load_from_text(browser.run(text)).get(length), chips

    assert pick("gpt2-small")[0] == 1024
    found, chips = pick("llama3-8b")
    assert found == 4096 and "1024 → 4096" in chips
    # A length that somebody sets stays.
    assert pick("gpt2-small")[0] == 1024
    assert pick("512", length)[0] == 512
    assert pick("llama3-8b")[0] == 512
    assert not browser.problems


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("width", [1300, 390])
def test_an_answer_comes_into_view(browser: Browser, server: Server, width: int) -> None:
    begin(browser, server)
    browser.resize(width)
    browser.run("document.querySelector('[data-question=\"longest-context\"]').click()")
    browser.wait("document.querySelector('#answered .lead') !== null")
    seen = """(() => {
      const at = document.querySelector('#answered .lead').getBoundingClientRect();
      const strip = document.querySelector('#strip').getBoundingClientRect().top || innerHeight;
      const top = document.elementFromPoint(at.left + 5, at.top + 8);
      return at.top >= 0 && at.bottom <= strip && top.closest('#answered') !== null;
    })()"""
    browser.wait(seen)


@pytest.mark.slow
def test_without_a_server_nothing_is_said_to_fit(browser: Browser, server: Server) -> None:
    begin(browser, server)
    network = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    for change in ("control", "text"):
        browser.send("Network.enable")
        browser.send("Network.emulateNetworkConditions", offline=True, **network)
        if change == "control":
            moved(browser, "training.micro_batch", "2")
        else:
            browser.run("""(() => { const area = document.querySelector('#text');
              area.value = area.value.replace('tokens: 15T', 'tokens: 2T');
              area.dispatchEvent(new Event('input', {bubbles: true})); })()""")
        gone = "no answer"
        browser.wait(f"document.querySelector('#state').textContent === '{gone}'")
        assert browser.run("document.querySelector('#strip').dataset.state") == gone
        assert browser.run("document.title").startswith(gone)
        for width, place in ((1300, "#answered-plan"), (390, "#strip")):
            browser.resize(width)
            colour = f"getComputedStyle(document.querySelector('{place} .state')).color"
            green = "getComputedStyle(document.documentElement).getPropertyValue('--fits')"
            hidden = f"document.querySelector('{place} .state').offsetParent === null"
            assert browser.run(hidden) or browser.run(colour) != colour_of(browser, green)
        browser.send("Network.emulateNetworkConditions", offline=False, **network)
        if change == "text":
            break
        moved(browser, "training.micro_batch", "4")
        browser.wait("document.querySelector('#state').textContent === 'up to date'")
        assert browser.run("document.querySelector('#strip').dataset.state") == ""
        assert "micro_batch: 4" in browser.run(TEXT)


def colour_of(browser: Browser, value: str) -> str:
    """A colour as computed styles write it."""
    return str(
        browser.run(f"""(() => {{ const box = document.createElement('i');
      box.style.color = {value}; document.body.append(box);
      const colour = getComputedStyle(box).color; box.remove(); return colour; }})()""")
    )
