"""Language consistency: counted words, detected languages, and hiding places for foreign words."""

from __future__ import annotations

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trl_grpo_ext import Blame, Sample, Status, Verdict
from trl_grpo_ext.rewards import language
from trl_grpo_ext.rewards.language import LanguageVerifier
from trl_grpo_ext.rewards.language_detection import LANGUAGES, SCRIPTS_OF, language_code
from trl_grpo_ext.rewards.prose import SCRIPTS, passages, prose

pytest.importorskip("py3langid", reason="the extra `language` is not installed")

TEXTS = {
    "en": "Okay, so first we need the value of x that makes both sides equal. Wait, that is not right, let me check.",
    "de": "Zuerst muss ich den Wert finden, der beide Seiten gleich macht. Moment, das stimmt nicht, ich prüfe es.",
    "es": "Primero necesito encontrar el valor que hace iguales ambos lados. Espera, eso no está bien, voy a verlo.",
    "fr": "D'abord, je dois trouver la valeur qui rend les deux côtés égaux. Attends, ce n'est pas juste, je vérifie.",
    "pt": "Primeiro preciso encontrar o valor que torna os dois lados iguais. Espere, isso não está certo, vou ver.",
    "vi": "Trước tiên, tôi cần tìm giá trị để hai vế bằng nhau. Khoan đã, điều đó không đúng, để tôi kiểm tra lại.",
    "ru": "Сначала нужно найти значение, при котором обе части равны. Подожди, это неверно, проверю второй случай.",
    "uk": "Спочатку потрібно знайти значення, за якого обидві частини рівні. Зачекай, це неправильно, перевірю ще раз.",
    "zh": "首先，我需要找到使两边相等的值。等一下，这不对，让我再检查一下第二种情况。",
    "ja": "まず、両辺が等しくなる値を見つける必要があります。待って、それは正しくないので、もう一度確認します。",
    "ko": "먼저 양변이 같아지는 값을 찾아야 합니다. 잠깐, 그건 맞지 않으니 두 번째 경우를 다시 확인하자.",
    "ar": "أولا، أحتاج إلى إيجاد القيمة التي تجعل الطرفين متساويين. انتظر، هذا ليس صحيحا، دعني أتحقق مرة أخرى.",
    "hi": "सबसे पहले, मुझे वह मान खोजना है जो दोनों पक्षों को बराबर करता है। रुको, यह सही नहीं है।",
    "th": "ก่อนอื่นฉันต้องหาค่าที่ทำให้ทั้งสองข้างเท่ากัน เดี๋ยวก่อน ไม่ถูกต้อง ขอตรวจสอบอีกครั้ง",
}
ENGLISH = LanguageVerifier(language="en")


def judged(text: str, verifier: LanguageVerifier = ENGLISH, **sample: Any) -> Verdict:
    return verifier.verify(Sample(text=text, **sample))


@pytest.mark.parametrize("code", TEXTS)
def test_a_text_is_in_its_own_language_and_in_none_of_the_others(code: str) -> None:
    found = {
        wanted: judged(TEXTS[code], LanguageVerifier(language=wanted)).score
        for wanted in TEXTS
    }
    assert found == {wanted: float(wanted == code) for wanted in TEXTS}


def test_the_score_is_the_share_of_the_words() -> None:
    verdict = judged(
        "one two three four five six seven eight nine ten words " * 3 + "\n其他三个词吧"
    )
    assert verdict.score == pytest.approx(33 / 36)
    assert (verdict.status, verdict.reason) == (Status.PARTIAL, "mixed_languages")
    assert verdict.details == {"wanted": "en", "share": "0.92", "others": "cjk"}


def test_a_sentence_of_another_language_of_the_same_script_is_found() -> None:
    verdict = judged(f"{TEXTS['en']} {TEXTS['es']} {TEXTS['en']}")
    assert verdict.details["others"] == "es"
    assert 0.5 < (verdict.score or 0) < 0.8


def test_a_chinese_sentence_in_english_thoughts_is_found() -> None:
    verdict = judged(
        f"<think>{TEXTS['en']}首先我们需要计算总数，然后除以二。{TEXTS['en']}</think>The answer is four."
    )
    assert 0.7 < (verdict.score or 0) < 0.9
    assert verdict.details["others"] == "zh"


def test_a_threshold_makes_the_score_1_or_0() -> None:
    mixed = TEXTS["en"] * 3 + "\n" + TEXTS["zh"]
    share = judged(mixed).score or 0
    for threshold, score, status in (
        (share, 1.0, Status.CORRECT),
        (share + 0.01, 0.0, Status.INCORRECT),
    ):
        verdict = judged(mixed, LanguageVerifier(language="en", threshold=threshold))
        assert (verdict.score, verdict.status, verdict.reason) == (
            score,
            status,
            "mixed_languages",
        )


@pytest.mark.parametrize(
    "text",
    ["", r"\boxed{4}", "4", "$x=4$", "```python\nprint(4)\n```", "Answer: 4", "\ud800\0"],
)
def test_too_little_prose_to_tell_scores_what_was_set(text: str) -> None:
    verdict = judged(text)
    assert (verdict.score, verdict.status, verdict.reason) == (
        1.0,
        Status.CORRECT,
        "too_little_prose",
    )
    assert judged(text, LanguageVerifier(language="en", too_little=0.0)).score == 0.0


def test_two_words_of_another_script_are_enough_to_tell() -> None:
    verdict = judged("答案是四")
    assert (verdict.score, verdict.reason) == (0.0, "other_language")


@pytest.mark.parametrize(
    "text",
    [
        "x + y = 10, x - y = 2. Adding: 2x = 12, x = 6, y = 4. Hmm, check: 6+4=10, 6-4=2. Then sin x = cos x.",
        "In triangle ABC, AB = AC, so the angles ABC and ACB are equal. Let M be the midpoint of BC.",
        "Janet has 3 ducks, Søren has $5 and $6 more. Kowalski, Nguyễn and José split pão de queijo at Café Müller.",
        "Let α and β be the angles with α + β = 90, so θ is the Δ of the two.",
        "In triangle αβγ the angle αβδ is right, and Δθ is the change of θ.",
        "The wire is 10 µF and 5 µm wide, 3 µg heavy, and 4 kΩ or 7 µΩ are what it has.",
        "HCl + NaOH -> NaCl + water. CH3COOH. Cl Na Mg Fe. Kcal mol atm Pa kJ. That is the whole reaction.",
        "num cnt idx tmp arr lst res ans cur nxt prev dp memo stk que heap vis adj are the names that I use here.",
        "def add(a, b):\n    result = a + b\n    return result\n\nThe function returns the sum of the two.",
        "**Step 1:** Add.\n\n- apples: 3\n- pears: 4\n- total: 7\n\n### Answer\n\nSo there are 7 pieces of fruit.",
    ],
)
def test_formulas_names_and_code_in_english_are_no_other_language(text: str) -> None:
    assert judged(text).score == 1.0


def test_greek_words_are_no_symbols_however_short() -> None:
    greek = "και το σπίτι μου είναι εκεί, με τη θέα που θα δεις"
    verdict = judged(f"So the answer is four, as we said. {greek}. So it is.")
    assert verdict.score == pytest.approx(11 / 23)
    assert judged(greek, LanguageVerifier(language="el")).score == 1.0
    assert judged("µικρό σπίτι, µεγάλο σπίτι").reason == "other_language"


def test_code_and_mathematics_do_not_count() -> None:
    chinese = LanguageVerifier(language="zh")
    code = "```python\ndef fib(n):\n    a, b = 0, 1\n    while a < n:\n        a, b = b, a + b\n    return a\n```"
    rest = r"调用 `fib(10, start=None)`，得到 $\frac{foo_{bar}}{baz} = \text{none}$，见 https://example.com/some/words?x=y。"
    assert judged(f"{TEXTS['zh']}\n{code}\n{rest}", chinese).score == 1.0


@pytest.mark.parametrize(
    "hidden",
    [
        "```\n{}\n```",
        "```python\n# {}\nprint(4)\n```",
        '```python\n"""\n{}\n"""\n```',
        "~~~text\n{}\n~~~",
        "`{}`",
        "${}$",
        "$${}$$",
        r"\[\text{{{}}}\]",
        r"\begin{{align}}{}\end{{align}}",
        "```\n{}",
        r"\({}",
        r"\[ x &= \text{{{}}} \\ y &= 4 \\ z &= x^2 + y_1 \]",
        "<a {}>",
        "https://example.com/{}",
        "\\begin{{align}}{}",
    ],
)
@pytest.mark.parametrize("code", ["es", "zh"])
def test_prose_behind_the_marks_of_code_or_mathematics_counts(
    hidden: str, code: str
) -> None:
    assert (
        judged(hidden.format(TEXTS[code]) + "\nSo the answer is four.").score or 0
    ) < 0.5


def test_reckoning_in_words_inside_a_code_block_counts() -> None:
    reckoning = (
        "Natalia sold 48 clips in April and half as many in May, so 48/2 = 24 clips in May.\n"
        "Altogether she sold 48 + 24 = 72 clips. Let x be the number of days, then 7x = 21, so x = 3 as we said."
    )
    verdict = judged(
        f"```\n{reckoning}\n```\n{TEXTS['ja']}", LanguageVerifier(language="ja")
    )
    assert (verdict.score or 0) < 0.7


def test_short_comments_in_code_do_not_count() -> None:
    code = (
        "```python\ndef solve(n, edges):\n    # Build the adjacency list\n    graph = {i: [] for i in range(n)}\n"
        "    for u, v in edges:\n        graph[u].append(v)\n        graph[v].append(u)\n    seen, queue = {0}, [0]\n"
        "    while queue:  # breadth first search\n        node = queue.pop(0)\n        seen.add(node)\n"
        "        queue.extend(other for other in graph[node] if other not in seen)\n    return len(seen) == n\n```"
    )
    assert judged(f"{TEXTS['ja']}\n{code}", LanguageVerifier(language="ja")).score == 1.0


@pytest.mark.parametrize("mark", ["`", "$"])
def test_prose_in_pieces_between_marks_counts(mark: str) -> None:
    words = TEXTS["es"].split()
    pieces = " ".join(
        f"{mark}{' '.join(words[start : start + 3])}{mark}"
        for start in range(0, len(words), 3)
    )
    assert (judged(pieces + "\nSo the answer is four.").score or 0) < 0.5


@pytest.mark.parametrize(
    "disguise",
    [
        lambda text: text.upper(),
        lambda text: text.replace(" ", "_"),
        lambda text: text.replace(" ", "\n"),
        lambda text: text.replace(" ", "7"),
        lambda text: text.replace(" ", ""),
        lambda text: "\u200b".join(text),
    ],
)
def test_other_spaces_or_capitals_hide_no_language(disguise: Any) -> None:
    assert judged(disguise(TEXTS["es"])).score == 0.0


def test_comments_in_another_script_count_though_code_does_not() -> None:
    assert (
        judged(f"The code:\n```python\nx = f(1)[2] + {{3: 4}}  # {TEXTS['zh']}\n```").reason
        == "mixed_languages"
    )


def test_the_language_is_that_of_the_prompt_if_none_is_named() -> None:
    prompts: list[Any] = [
        "小明有两个苹果，他又买了两个苹果，一共有多少个苹果？",
        "How many apples does Tom have if he buys two and then two more?",
        [
            {
                "role": "system",
                "content": "You are a helpful assistant who thinks step by step.",
            },
            {
                "role": "user",
                "content": "小明有两个苹果，他又买了两个苹果，一共有多少个苹果？",
            },
        ],
        [
            {
                "role": "user",
                "content": [
                    {
                        "type": "text",
                        "text": "¿Cuántas manzanas tiene Juan si compra dos más?",
                    }
                ],
            }
        ],
    ]
    found = language.language_reward(
        [TEXTS["en"], TEXTS["en"], TEXTS["zh"], TEXTS["es"]], prompts=prompts
    )
    assert found == [0.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    "prompt", [None, "2+2=?", [], [{"role": "system", "content": TEXTS["zh"]}], ""]
)
def test_where_the_prompt_tells_none_a_completion_must_keep_to_its_own(prompt: Any) -> None:
    verifier = LanguageVerifier()
    assert judged(TEXTS["es"], verifier, prompt=prompt).score == 1.0
    assert (
        judged(TEXTS["es"] + TEXTS["zh"], verifier, prompt=prompt).reason
        == "mixed_languages"
    )


def test_a_column_may_name_the_language_of_each_row() -> None:
    verifier = LanguageVerifier(column="lang")
    texts = [TEXTS["zh"], TEXTS["pt"], TEXTS["en"]]
    assert verifier(texts, lang=["zh-CN", "pt_BR", "de"]) == [1.0, 1.0, 0.0]
    with pytest.raises(ValueError, match="`lang`"):
        verifier(["x"])


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "language_missing"),
        *((value, "language_unreadable") for value in ("Klingon", "", 5, ["en"], "\ud800")),
    ],
)
def test_a_row_without_a_language_is_the_datas_fault(value: object, reason: str) -> None:
    verifier = LanguageVerifier(column="lang")
    verdict = judged("Whatever this says.", verifier, row={"lang": value})
    assert (verdict.score, verdict.blame, verdict.reason) == (None, Blame.DATA, reason)
    (problem,) = verifier.check_rows([{"lang": "en"}, {"lang": value}])
    assert (problem.row, problem.reason) == (1, reason)


def test_a_part_of_the_completion_may_be_looked_at_alone() -> None:
    text = f"<think>{TEXTS['zh']}</think>{TEXTS['en']}"
    parts = ("completion", "thinking", "answer")
    found = [
        judged(text, LanguageVerifier(language="en", part=part)).score for part in parts
    ]  # type: ignore[arg-type]
    assert found == [pytest.approx(0.55, abs=0.1), 0.0, 1.0]


def test_a_part_that_is_not_there_is_unparseable() -> None:
    answer, thinking = (
        LanguageVerifier(language="en", part="answer"),
        LanguageVerifier(language="en", part="thinking"),
    )
    for verdict, reason in (
        (judged(f"<think>{TEXTS['en']}", answer), "unclosed_think"),
        (judged(TEXTS["en"], answer, prefill="<think>\n"), "unclosed_think"),
        (judged(TEXTS["en"], thinking), "no_think"),
    ):
        assert (verdict.status, verdict.score, verdict.reason) == (
            Status.UNPARSEABLE,
            0.0,
            reason,
        )
    assert judged(TEXTS["en"], thinking, prefill="<think>\n").score == 1.0
    assert judged(TEXTS["en"] + "</think>" + TEXTS["zh"], thinking).score == 1.0


@given(
    text=st.text(st.characters()) | st.text("$`\\[](){}<a \n~汉б1"),
    part=st.sampled_from(language.PARTS),
)
def test_any_text_has_one_score(text: str, part: Any) -> None:
    for verifier in (
        LanguageVerifier(language="en", part=part),
        LanguageVerifier(language="ja"),
        LanguageVerifier(),
    ):
        (verdict,) = verifier.judge_samples([Sample(text=text, prompt=text)])
        assert verdict.score is not None
        assert 0 <= verdict.score <= 1


@given(text=st.text("$`\\[](){}<a \n~汉б1"))
def test_marks_take_away_no_more_than_stands_between_them(text: str) -> None:
    assert prose(text).count("汉") == text.count("汉")


@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "a ",
        "$a ",
        "`",
        "```\n",
        r"\[",
        r"\begin{align}",
        "<a",
        "http://",
        "a\u0301\u0316",
        "汉",
        "\n",
        "&amp",
    ],
)
def test_hostile_text_of_any_length_gets_its_score(unit: str) -> None:
    assert judged(unit * (100_000 // len(unit))).score in (0.0, 1.0)


def test_windows_are_short_whatever_the_text() -> None:
    for text in ("a" * 5000, "汉" * 5000, "word " * 5000, "a\u0301" * 5000):
        found = passages(text)
        assert max(len(passage.text) for passage in found) < 1500
        assert sum(passage.chars for passage in found) >= 4000


def test_it_works_in_threads() -> None:
    texts = [TEXTS["en"], TEXTS["es"]] * 20
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda text: judged(text).score, texts)) == [1.0, 0.0] * 20


def test_importing_and_making_it_loads_no_detector() -> None:
    code = (
        "import sys\nfrom trl_grpo_ext.rewards.language import LanguageVerifier\nLanguageVerifier(language='en')\n"
        "print(*{'py3langid', 'regex', 'numpy', 'torch', 'trl'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_without_the_extra_it_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "py3langid", None)
    with pytest.raises(
        ValueError, match=r"py3langid.*pip install 'trl-grpo-ext\[language\]'"
    ):
        LanguageVerifier()


def test_every_language_that_may_be_named_is_one_that_the_detector_knows() -> None:
    from py3langid import langid

    labels = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE).labels
    assert set(LANGUAGES) <= set(labels)
    assert {code for code in labels if len(code) == 2} - set(LANGUAGES) <= {
        "an",
        "nn",
        "se",
        "rw",
        "sn",
        "st",
    }
    assert set().union(*SCRIPTS_OF.values()) <= {"CJK", *SCRIPTS}
    assert [language_code(code) for code in ("EN", " zh-Hant", "pt_BR", "nb")] == [
        "en",
        "zh",
        "pt",
        "no",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"language": "english"}, "ISO 639-1 code such as 'en' or 'zh', got 'english'"),
        ({"language": "xx"}, "got 'xx'"),
        ({"language": "en", "column": "lang"}, "either language=.*or column="),
        ({"part": "thoughts"}, "part cannot be 'thoughts'"),
        ({"threshold": 0}, "above 0 and up to 1; got 0"),
        ({"threshold": 1.1}, "above 0 and up to 1; got 1.1"),
        ({"min_words": 0}, "1 or more; got 0"),
        ({"too_little": None}, "0 or more and up to 1; got None"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        LanguageVerifier(**arguments)


def test_the_ready_instance_has_the_defaults_its_name_and_pickles() -> None:
    ready = language.language_reward
    assert ready == LanguageVerifier(name="language_reward")
    assert pickle.loads(pickle.dumps(ready)) == ready
    with pytest.raises(AttributeError, match="no_such_reward"):
        language.no_such_reward  # noqa: B018
