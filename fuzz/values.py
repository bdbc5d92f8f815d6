"""Scalars that break programs, as text of a document."""

from __future__ import annotations

from random import Random

#: As written in YAML; JSON takes those that are JSON.
# fmt: off
SCALARS = (
    "0", "-0", "-0.0", "1", "-1", "2", "3", "7", "0.5", "1e-400", "1e400", "-1e400", "1e401",
    "1e99999999999", "1e308", "1e309", "4.9e-324", "1e15", "1e18", "1e30", "1000000", "999983",
    "2147483648", "9223372036854775808", "18446744073709551616", "9" * 200, "9" * 201, "9" * 5000,
    "0." + "3" * 150, ".inf", "-.inf", ".nan", "NaN", "Infinity", "inf", "nan", "0x" + "f" * 60,
    "0o17", "0b1", "017", "1_000", "1,000", "1 000", "12:30", "2024-01-01", "+1", "--1", "1.2.3",
    "true", "false", "yes", "no", "null", "~", "''", '""', "' '", "[]", "{}", "[[]]", "[null]",
    "15T", "4M", "80 GB", "80 GiB", "3.35 TB/s", "400 Gb/s", "989 TFLOP/s", "30 days", "2 USD/h",
    "700 W", "0.4 kg/kWh", "-5 GB", "0 GB", "1e300 GB", "1e-300 s", "5 ZB", "1 B/s/s/s", "5 %",
    "1 GB^99", "1 GB^-99", "1 GB^999999", "1e400 YB^9", "1/s^99", "1 per", "per s", "1 m-h", "/",
    "1 GB/0", "50%", "1000%", "'1 \u00b5s'", "\u0661\u0662", "\uff11\uff12", "1\u202f000",
    "\u00bd", "llama2-70b", "h100-sxm-80gb", "../../etc/passwd", "/etc/passwd", "/dev/zero",
    "/dev/stdin", "/dev/full", ".", "..", "/", "x/..", "con", "a" * 5000, "a/" * 3000, '"\\0"',
    '"\\uD800"', '"\\x1b[31m"', '"\\r\\nError"', '"\\u202e"', '"\\uFFFE"', '"\\U0010FFFF"',
    '"\u2028"', "!!python/object/apply:os.system [id]", "!!int x", "!!binary aGk=", "!!set {a}",
    "!!float 1", "! x", "&a 1", "*a", "&a [*a]", "<<: 1", "|\n  text\n", ">-\n  text\n", "? a",
    "- a", "@a", "`a`", "%TAG", "'{{ 7 * 7 }}'", "'{% for x in y %}'",
    "'<script>alert(1)</script>'", "'$(id)'", "'__import__(\"os\")'", "'| a | b |'", "'$x^2$'",
    "'](javascript:x)'", "'a\\'", "'%n%s'", "'{0}'", "auto", "none", "full", "selective", "gpipe",
    "interleaved", "dualpipe", "zero-bubble", "bf16", "fp8", "muon", "adafactor", "inference",
    "eager", "transformers", "megatron", "pytorch",
)
# fmt: on

# fmt: off
KEYS = (
    "extends", "<<", "", " ", "a", "a.b", "__class__", "__proto__", "name", "model", "kinds",
    "pattern", "layers", "parameters", "stages", "a" * 3000, '"\\0"', '"\\e[2J"', "'\u202e'", "1",
    "1.5", "true", "null", "[a]", "{a: b}", "&k k", "*k", "!!str k", "? k", "'a: b'", "=", "~",
    "-",
)
# fmt: on


def scalar(random: Random) -> str:
    """One hostile or plausible scalar, as written."""
    if random.random() < 0.4:
        power = random.choice((1, 1, 2, 4, 8, 10, 15, 20, 40))
        return str(
            random.randint(-2 if random.random() < 0.1 else 0, 2 ** random.randint(0, power))
        )
    if random.random() < 0.1:
        return str(2 ** random.randint(0, 70))
    return random.choice(SCALARS)


def name(random: Random) -> str:
    return random.choice(KEYS)
