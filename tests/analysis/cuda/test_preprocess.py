"""Macros and conditions, expanded by hand as the C standard says, line for line."""

import pytest

from solkit.analysis.cuda.preprocess import definitions_of, preprocessed
from solkit.analysis.cuda.source import tokens_of

DEFINITIONS = """
#define ONE 1 // a comment
#define CEIL(a, b) (((a) + (b) - 1) / (b))
#define TEXT(x) #x
#define EXPANDED_TEXT(x) TEXT(x)
#define JOIN(a, b) a##b
#define JOIN_EXPANDED(a, b) JOIN(a, b)
#define PASS(f, ...) f(__VA_ARGS__)
#define GNU(f, ...) f(0, ##__VA_ARGS__)
#define OPTIONAL(f, ...) f(0 __VA_OPT__(,) __VA_ARGS__)
#define NAMED(args...) g(args)
#define LOOP LOOP + 1
#define GO(K) do { K<<<1, 2>>>(x); } \\
  while (0)
"""


def expanded(text, *flags):
    result = preprocessed(DEFINITIONS + text, definitions_of(flags))
    assert result.count("\n") == (DEFINITIONS + text).count("\n")
    return " ".join(token.text for token in tokens_of(result) if token.kind != "directive")


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("CEIL(ONE,\n 4)", "( ( ( 1 ) + ( 4 ) - 1 ) / ( 4 ) )"),
        ("JOIN(CEIL, 2) JOIN(ONE, X) JOIN_EXPANDED(ONE, 2)", "CEIL2 ONEX 12"),
        ('TEXT(a  + "b") EXPANDED_TEXT(ONE)', '"a + \\"b\\"" "1"'),
        ("PASS(h, 1, (2, 3)) PASS(h)", "h ( 1 , ( 2 , 3 ) ) h ( )"),
        ("GNU(h) GNU(h, 1) OPTIONAL(h) OPTIONAL(h, 1)", "h ( 0 ) h ( 0 , 1 ) h ( 0 ) h ( 0 , 1 )"),
        ("NAMED(1, 2)", "g ( 1 , 2 )"),
        ("LOOP CEIL", "LOOP + 1 CEIL"),  # neither without end, nor without arguments
        ("GO(t<2>);", "do { t < 2 > <<< 1 , 2 > > > ( x ) ; } while ( 0 ) ;"),
        ('"ONE" \'ONE\' R"(ONE)" 1\'000', '"ONE" \'ONE\' R"(ONE)" 1\'000'),
        ("#undef ONE\nONE", "ONE"),
    ],
)
def test_macros(text, result):
    assert expanded(text) == result


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("if ONE == 1 && defined(CEIL) && !defined NONE", True),
        ("if NONE", False),
        ("ifdef ONE", True),
        ("ifndef ONE", False),
        ("if 0x10 > 017 ? 2 - 1 : 0", True),
        ("if CEIL(7, 2) == 4", True),
        ("if GIVEN >= 3 && !defined(GONE)", True),
        ("if not defined(GONE) and (NONE or ONE not_eq 2)", True),
        ("if 1 +", False),
    ],
)
def test_conditions(condition, holds):
    text = f"#{condition}\nyes\n#elif ONE\nno\n#else\nnever\n#endif"
    assert expanded(text, "-DGIVEN=3", "-DGONE", "-U", "GONE") == ("yes" if holds else "no")


def test_definitions_in_parts_that_do_not_count_are_none():
    assert expanded("#if 0\n#define ONE 2\n# if 1\n#define ONE 3\n# endif\n#endif\nONE") == "1"


def test_pragmas_stay_with_their_numbers():
    text = preprocessed("#define N 4\n#pragma unroll N\nfor (;;) ;", {})
    assert "#pragma unroll 4\n" in text


@pytest.mark.parametrize("flags", [["-DN=4"], ["-D", "N=4"], ["-D N=4"], ["-DN=5", "-DN=4"]])
def test_options_define(flags):
    assert expanded("N", *flags) == "4"
