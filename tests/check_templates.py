#!/usr/bin/env python3
"""Renders templates with Jinja2, set up as transformers does, and with ours, and compares the bytes.

Some thousand expressions, and the published templates in the folder that ONEBIT_TEMPLATES names (`tools/fetch-templates.py`), each with
conversations of many kinds. Needs cargo and jinja2.
"""

import datetime
import functools
import itertools
import json
import os
import pathlib
import subprocess
import sys

import common
import jinja2
import jinja2.ext
import jinja2.sandbox

NOW = datetime.datetime(2024, 2, 29, 12, 0, 0)


class Generation(jinja2.ext.Extension):
    """`{% generation %}`: a scope, as far as the text goes."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("whole"), [], [], body).set_lineno(line)

    def whole(self, caller):
        return caller()


def environment(sandbox):
    env = sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env.filters["tojson"] = tojson
    env.globals.update(raise_exception=raise_exception, strftime_now=NOW.strftime)
    return env


# Ours lets lists and dictionaries change; the sandbox of transformers does not.
IMMUTABLE = environment(jinja2.sandbox.ImmutableSandboxedEnvironment)
MUTABLE = environment(jinja2.sandbox.SandboxedEnvironment)


def prepared(message):
    """A message as transformers' `render_jinja_template` gives it to templates."""
    message = {k: v for k, v in message.items() if v is not None}
    reasoning = next((message[k] for k in ("reasoning_content", "thinking", "reasoning") if k in message), None)
    return message if reasoning is None else {"thinking": reasoning} | message | {"reasoning_content": reasoning}


@functools.lru_cache(256)
def compiled(env, source):
    return env.from_string(source)


def reference(case):
    """(text, None) or (None, error)."""
    variables = {"bos_token": case["bos"], "eos_token": case["eos"], "documents": None, "add_generation_prompt": True, "tools": None}
    variables |= {k: case[k] for k in ("tools",) if case.get(k) is not None} | case.get("extra", {})
    variables["messages"] = [prepared(m) for m in case["messages"]]
    for env in (IMMUTABLE, MUTABLE):
        try:
            # Templates may change what they are given.
            return compiled(env, case["source"]).render(**json.loads(json.dumps(variables))), None
        except jinja2.exceptions.SecurityError as e:
            error = f"SecurityError: {e}"
        except Exception as e:
            return None, f"{type(e).__name__}: {e}"
    return None, error


def ours(cases):
    """The answers of `examples/render.rs`."""
    command = ["cargo", "run", "--quiet", "--release", "-p", "onebit-text", "--example", "render"]
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    r = subprocess.run(command, cwd=common.ROOT, input=lines, capture_output=True, text=True, timeout=1800)
    if r.returncode:
        sys.exit(f"the renderer failed: {r.stderr[-2000:]}")
    return [json.loads(line) for line in r.stdout.split("\n") if line]


# --- expressions

TEXTS = ["''", "'a'", "'Hello World'", "' \\t x y\\n'", "'a,b,,c'", "'ÄöÜß éΣΣ'", "'ǆ ŉ'", "'12'", "'-3.7e2'", "'1_000'", "'²½'", "'x\\u2028y\\r\\nz\\x1c'",
         "'abcabcabc'", "'don\\'t \"q\"'", "'😀é\\u200b\\x00'", "'TRUE'", "'they\\'re-bill\\'s x1y'"]
OTHERS = ["0", "7", "-5", "3.0", "-2.5", "1e16", "1e-5", "true", "none", "[]", "[3, 1, 2]", "['b', 'A', 'c']", "(1, 'x')", "{}", "{'b': 1, 'A': 2}",
          "missing", "range(4)", "2**70", "[[1, 2], [3]]", "[none, true, 1.5, 'x']", "{1: 'a', none: 2, true: 3, 1.5: 4}"]
METHODS = """capitalize() lower() upper() title() strip() lstrip() rstrip() strip('a') strip('abc ') lstrip('aH') rstrip('d,c') split()
split(',') split('b', 1) split(none, 1) split(maxsplit=1) rsplit() rsplit('b', 1) rsplit(none, 1) rsplit(maxsplit=2) splitlines() splitlines(true)
startswith('a') startswith(('H','a')) startswith('b', 1) startswith('') endswith('c') endswith(('x','d')) endswith('b', 0, 2) find('b') find('') find('b', 2)
find('b', -3) find('c', 1, -1) find('', 3) rfind('b') rfind('') rfind('b', 0, 5) index('a') count('b') count('') count('abc') count('b', 2) replace('b', 'X')
replace('b', '') replace('', '-') replace('', '-', 2) replace('b', 'YY', 1) replace('b', 'Z', -1) join(['x', 'y']) join('xyz') join([]) join([1]) removeprefix('a')
removesuffix('c') partition('b') rpartition('b') partition('zz') rpartition('zz') center(9) center(10) center(9, '*') ljust(8, '.') rjust(8) zfill(8) isalpha()
isalnum() isdigit() isdecimal() isnumeric() isspace() islower() isupper() istitle() isascii() format(1) encode_missing()""".split()
# Their arguments have spaces.
METHODS = [m.strip() for m in " ".join(METHODS).replace(") ", ")\n").split("\n")]
FILTERS = """abs|capitalize|center(20)|count|d('x')|default('x', true)|dictsort|dictsort(true)|dictsort(by='value')|dictsort(reverse=true)|e|first|float|float(9)|
int|int(9)|int(base=16)|indent|indent(2)|indent(2, true)|indent('> ', blank=true)|items|list|join|join('-')|last|length|list|lower|max|min|reject|list|replace('a', 'o')|
reverse|round|round(1)|round(1, 'ceil')|round(method='floor')|safe|select|list|sort|sort(reverse=true)|sort(case_sensitive=true)|string|sum|title|tojson|
tojson(indent=2)|tojson(ensure_ascii=true)|tojson(separators=(',', ':'))|tojson(sort_keys=true)|tojson(indent='\\t')|trim|trim('a')|unique|upper|wordcount|batch(2)|list|slice(2)|list|map('string')|list|map('upper')|join(',')|select('odd')|list|
reject('none')|list|map('length')|list|items|list|attr('x')|format(1)|reverse|list|unique|list|groupby(0)|list""".replace("\n", "")
TESTS = """boolean callable defined divisibleby(3) escaped even false float integer iterable lower mapping none number odd sameas(none) sequence string true undefined upper
eq('a') ne(7) lt(5) gt(2) ge('a') le(3.0) in([7,'a']) in('abc')""".split()
SLICES = ["[0]", "[-1]", "[1:]", "[:2]", "[:-1]", "[::-1]", "[::2]", "[5:1:-2]", "[-2:]", "[-100:100]", "[3:1]", "[1:none]", "[99]", "['x']", "[none]", "[1.5]", "[true]"]
FORMATS = ["'%s' % x", "'%r|%5s|%-5s|' % (x, x, x)", "'%d' % x", "'%05d|%+d|%x|%o' % (x, x, x, x)", "'%.2f|%8.3f|%e|%g' % (x, x, x, x)", "'%%' % ()", "'%(a)s' % {'a': x}",
           "'{}|{0}'.format(x)", "'{}|{!r}'.format(x, x)", "'{:>8}|{:<8}|{:^8}|'.format(x, x, x)", "'{:05}|{:+}|{:,}'.format(x, x, x)", "'{:.2f}|{:e}|{:%}'.format(x, x, x)",
           "'{a[0]}'.format(a=x)", "'{:*^9}'.format(x)", "'{{}}{:{w}}'.format(x, w=6)", "'{:x}|{:b}|{:#x}'.format(x, x, x)", "'{:s}'.format(x)", "'%s %s' % x", "'%c' % x",
           "'{:g}|{:.3}|{:10.4}'.format(x, x, x)", "'{:_}'.format(x)", "x ~ ''", "'%i' | format(x)"]
NUMBERS = ["0", "1", "-7", "255", "65", "1234567", "-0.0", "0.1", "2.5", "-1234.5678", "1e20", "1.5e-7", "123456789.0", "true", "'7'", "'ab'", "none", "[1, 2]", "(1, 2)", "2**64", "1e22",
           "missing", "0.5", "1.5", "99999.5"]
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]
SINGLE = """x if false|1 if x is defined else 2|not x|-x|+x|- -3|2 ** -1|-2 ** 2|2 ** 3 ** 2|1 + 2 * 3 - 4 / 2|7 // -2|-7 % 3|7 % -3|7.5 % -2|-7.5 // 2|1 < 2 < 3|1 < 3 < 2|
1 == 1.0 == true|[1, 2] < [1, 3]|(1, 2) == [1, 2]|{'a': 1} == {'a': 1.0}|'a' in {'a': 1}|1 in (1, 2)|none in [none]|'' in 'abc'|(1)|(1,)|()|[1, 2, ]|{'a': 1, }|
'a' 'b' "c"|'\\x41\\u00e9\\U0001F600\\n\\q\\101'|"it's"|1_000|0x1F + 0b11 + 0o17|1e3|1.5e-3|true and 'x' or 'y'|none or []|x.y.z|x.y|messages[0].x.y|messages[0]['x'].y|
messages[0].items|messages[0].role.upper()|messages[0]['role'] | upper|messages | map(attribute='role') | list|messages | map(attribute='nope', default='d') | list|
messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | list|messages | selectattr('nope') | list|messages | rejectattr('role', 'in', ['user']) | list | length|
messages | groupby('role') | list|messages | sort(attribute='role') | map(attribute='role') | join(',')|messages | sum(attribute='nope')|range(10) | sum|
range(5) | select('odd') | list|range(5) | reject('odd') | list|range(0)|range(3)|range(1, 7, 2)|range(3, 0, -1) | list|range(100001)|dict(a=1, **{'b': 2})|dict([('a', 1)])|
namespace(a=1).a|namespace({'a': 2}).a|namespace(a=1)|namespace(a=1).b|strftime_now('%d %b %Y')|strftime_now('%Y-%m-%d %H:%M:%S %A %B %j %p %I %y %%')|raise_exception('x')|loop|
[1, 2] is sequence|'a' is iterable|x is defined and x.y|3 is divisibleby 3|3 is not divisibleby(2)|4 is even and 5 is odd|'x' is in ['x']|1 is sameas true|
{'a': 1}.a|{'a': 1}['a']|{'a': {'b': 1}}.a.b|{'get': 1}.get|{'get': 1}['get']|{1: 2}[1.0]|{true: 1}[1]|[1, 2].0|[[1]].0.0|'abc'.1|(1, 2).1|'abc' | list | last|
[3, 1] | sort | first|[] | first|[] | last is defined|[] | max|'abc' | max|['b', 'B', 'a'] | sort|['b', 'B', 'a'] | unique | list|{'b': 1, 'A': 2} | dictsort|
{'a': [1, {'b': none}]} | tojson(indent=2)|[] | tojson(indent=2)|{} | tojson|{'k': {}} | tojson(indent=1)|{1: 2, none: 3, true: 4, 1.5: 5} | tojson|{'b': 1, 'a': 2} | tojson(sort_keys=true)|
(1, 2) | tojson|'é\\n\\u2028"\\\\</script>' | tojson|'é😀' | tojson(ensure_ascii=true)|1e16 | tojson|missing | tojson|[1.0, 1e100, 0.1] | tojson|range(3) | tojson|{'a': 1}.items() | tojson|
{'a': 1}.items()|{'a': 1}.keys()|{'a': 1}.values()|{'a': 1}.items() | list|{'a': 1} | items | list|{'a': 1, 'b': 2}.keys() | list | join|{'a': 1} | list|{'a': 1} | length|
{'a': 1}.get('b')|{'a': 1}.get('b', 2)|{'a': 1}.copy()|[1, 2].index(2)|[1, 2, 1].count(1)|[1].index(9)|(1, 2).index(2)|[1] + [2]|(1,) + (2,)|[1] + (2,)|[0] * 3|3 * 'ab'|'ab' * -1|
'%s' % [1]|'%s' % ('x',)|'x' % ()|'%s' % ()|'a' < 'b'|'a' < 1|none < 1|[1] < [none]|1 < 1.5|true < 2|true + true|true * 3|1 / 0|1 % 0|1 // 0.0|0 ** -1|2 ** 0.5|10 ** 20|2 ** 100|-(2 ** 100)|
9223372036854775807 + 1|9223372036854775808 | string|7 / 2|6 / 2|1e308 * 10|-1e308 * 10|(1e308 * 10) - (1e308 * 10)|1.0|100000000000000000.0|123456789012345680.0|0.00001|1e-7|-0.0|5e-324|
1.7976931348623157e308|0.1 + 0.2|1/3|2/3|1e15|1e16|123456789.123456789|x | default('d')|x | default|'' | default('d')|'' | d('d', true)|none | default('d')|none | string|true | string|
[none] | string|missing | string|missing | length|missing | list|missing | join|missing | upper|missing | int|missing | first|missing == missing2|missing == none|missing != 1|missing in [1]|
1 in missing|missing < 1|missing + 1|missing()|missing | map('upper') | list|'a' | attr('upper')|{'a': 1} | attr('a')|'a'.__class__|messages.__class__|
'abc' | select('in', 'ab') | join|[1, 'a', none] | map('string') | list|['a'] | map('upper') | list|['a', 'b'] | map('replace', 'a', 'z') | list|[[1, 2], [3]] | map('length') | list|
[[1, 2], [3]] | map('first') | list|[[1, 2], [3]] | sum(start=[])|[1, 2, 3] | batch(2) | list|[1, 2, 3] | batch(2, 0) | list|[1, 2, 3] | slice(2) | list|[1, 2, 3] | slice(2, 0) | list|
'a b' | wordcount|'x' | center(5) ~ '|'|'a\\n\\nb' | indent(2, true, true)|
'a\\nb\\n' | indent|'x' | indent|1.5 | round|2.5 | round|-2.5 | round|2.675 | round(2)|1234 | round(-2)|1234.5 | round(-2)|42 | round|42.7 | round(0, 'floor')|42.1 | round(0, 'ceil')|
'12abc' | int|'0x1f' | int(0, 16)|'12.9' | int|12.9 | int|'x' | int(5)|none | int|[] | int|'1e3' | float|'x' | float|'inf' | float|true | int|' 7 ' | int|'7' | float|
'abc'[1]|'abc'[-1]|'abc'[10]|'abc'[10] is defined|'abc'[:10]|'aébc'[1:3]|[1, 2][5] is defined|{}.x is defined|messages[0].content[0]|x[0]|none[0]|none.x|5.x|(5).x|true.x|
'a' is string|1 is string|'A' is upper|'a1' is lower|'1' is lower|{} is mapping|[] is mapping|range(2) is iterable|5 is iterable|none is none|x is none|x is undefined|
1 is number|true is number|'1' is number|1.5 is float|true is integer|1 is boolean|dict is callable|'a'.upper is callable|'nofilter' is filter|'upper' is filter|'odd' is test|
'{} {}'.format(1)|'{'.format()|'}'.format()|'{x}'.format(y=1)|'{0.a}'.format(messages[0])|'{:d}'.format('a')|'{:<}'.format(1)|'{!r:>6}'.format('a')|
(messages | first).role|messages | last | attr('x')|messages[-1:] | length|messages[::-1] | map(attribute='role') | first|(messages | list)[0].role|messages | length - 1|
(1 if true else 2) + 1|1 if true else 2 + 1|'a' ~ 1 + 2|1 ~ 2 * 3|'a' + 'b' | upper|('a' + 'b') | upper|-1 | abs|not true == false|not 1 in [2]|1 not in [2] and true|
1 is not none is true|x is|{'a': 1|[1|(1|'a|1 +|a b|1 = 2|{{ 1 }}|%|$|x.|x.|y|f(**{'a': 1})|cycler('a')""".replace("\n", "")


def split_bars(text):
    """Splits at `|` without space around."""
    out, depth, quote, i, start = [], 0, None, 0, 0
    while i < len(text):
        c = text[i]
        if quote:
            if c == "\\":
                i += 1
            elif c == quote:
                quote = None
        elif c in "'\"":
            quote = c
        elif c == "|" and text[i - 1 : i] != " ":
            out.append(text[start:i])
            start = i + 1
        i += 1
    return out + [text[start:]]


# What a template sees of these has no fixed text in Python either.
NO_TEXT = ("<generator", "<bound method", "<built-in", "<function", "<Macro", "<jinja2", "<class", "<Loop", " object at 0x")


def expressions():
    yield from (f"{{{{ {t}.{m} }}}}" for t in TEXTS for m in METHODS)
    filters = [f for f in split_bars(FILTERS) if f]
    yield from (f"{{{{ ({v}) | {f} }}}}" for v in TEXTS[:9] + OTHERS for f in filters)
    yield from (f"{{{{ ({v}) | {f} | list }}}}" for v in OTHERS for f in ("items", "map('string')", "select", "unique", "reverse", "batch(2)", "slice(2)", "groupby(0)"))
    yield from (f"{{{{ ({v}) is {t} }}}}" for v in TEXTS[:5] + OTHERS for t in TESTS)
    yield from (f"{{{{ ({v}){s} }}}}" for v in TEXTS[:6] + OTHERS for s in SLICES)
    yield from (f"{{% set x = {n} %}}{{{{ {f} }}}}" for n in NUMBERS for f in FORMATS)
    yield from (f"{{{{ ({a}) {o} ({b}) }}}}" for a, b in itertools.product(["2", "-3", "2.5", "'ab'", "[1]", "(1,)", "{'a': 1}", "none", "true", "missing"], repeat=2) for o in OPERATORS)
    yield from (f"{{{{ {v} }}}}" for v in TEXTS + OTHERS)
    yield from (f"{{{{ [{v}] }}}}" for v in TEXTS + OTHERS)
    yield from (f"{{{{ {e} }}}}" for e in split_bars(SINGLE) if e)
    yield from STATEMENTS


STATEMENTS = [
    "{% for i in [1, 2] %}{{ i }}{% else %}e{% endfor %}", "{% for i in [1] %}{% break %}{% else %}e{% endfor %}", "{% for i in [1, 2] %}{% continue %}{% else %}e{% endfor %}",
    "{% for i in missing %}x{% else %}e{% endfor %}", "{% for i in none %}x{% endfor %}", "{% for a, b in [(1, 2), [3, 4]] %}{{ a }}{{ b }}{% endfor %}",
    "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for a, b in [(1, 2, 3)] %}{% endfor %}", "{% for a, b in [(1,)] %}{% endfor %}",
    "{% for k in {'a': 1} %}{{ k }}{% endfor %}", "{% for c in 'héy' %}{{ c }}.{% endfor %}", "{% for i in range(5) if i is odd %}{{ loop.index }}/{{ loop.length }}:{{ i }} {% endfor %}",
    "{% for i in range(4) %}{{ loop.revindex0 }}{{ loop.changed(i // 2) }}{{ loop.cycle('a', 'b') }} {% endfor %}",
    "{% for i in [1, 2, 3] %}{{ loop.previtem | default('-') }}{{ loop.nextitem | default('-') }}{% endfor %}",
    "{% for i in [[1, [2]], [3]] recursive %}{% if i is iterable %}({{ loop.depth }}{{ loop(i) }}){% else %}{{ i }}{% endif %}{% endfor %}",
    "{% for i in [1] %}{{ loop }}{% endfor %}", "{% for i in [1] %}{% set x = 2 %}{% endfor %}{{ x }}", "{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = 9 %}{{ x }}{% endfor %}{{ x }}",
    "{% if false %}{% set y = 1 %}{% endif %}{{ y }}|", "{% if true %}{% set y = 1 %}{% endif %}{{ y }}", "{% with a = 1, b = 2 %}{{ a + b }}{% set c = 3 %}{% endwith %}{{ a }}{{ c }}",
    "{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{% set a, b = 1, 2 %}{{ b }}{{ a }}", "{% set (a, b) = [1, 2] %}{{ a }}", "{% set a = 1, 2 %}{{ a }}",
    "{% set ns = namespace(x=1) %}{% for i in [1, 2] %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{{ ns['x'] }}{{ ns.y is defined }}", "{% set d = {} %}{% set d.x = 1 %}",
    "{% set x %}a{{ 1 }}b{% endset %}{{ x | upper }}", "{% set x | upper | trim %} ab {% endset %}[{{ x }}]", "{% filter upper | replace('A', 'z') %}abc{% endfilter %}",
    "{% macro f(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(1) }}|{{ f(1, c=3) }}|{{ f(b=1) }}|", "{% macro f(a) %}{{ a is defined }}{% endmacro %}{{ f() }}",
    "{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, x=3) }}", "{% macro f(a) %}x{% endmacro %}{{ f(1, 2) }}", "{% macro f(a) %}x{% endmacro %}{{ f(b=2) }}",
    "{% macro f(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ f(*[1, 2]) }}{{ f(**{'a': 3, 'b': 4}) }}", "{% macro f(a, b=1, c) %}{% endmacro %}", "{% macro f() %}{{ caller() }}{% endmacro %}{{ f() }}",
    "{% macro f() %}[{{ caller(1, b=2) }}]{% endmacro %}{% call(a, b) f() %}{{ a }}{{ b }}{% endcall %}", "{% set x = 1 %}{% macro f() %}{{ x }}{% set x = 5 %}{{ x }}{% endmacro %}{% set x = 2 %}{{ f() }}{{ x }}",
    "{% macro f(n) %}{{ n }}{{ f(n - 1) if n > 0 }}{% endmacro %}{{ f(3) }}{{ f.name }}", "{% set r %}{% for i in [1] %}{% set q = 1 %}{% endfor %}{% endset %}[{{ r }}]", "{{ f() }}{% macro f() %}x{% endmacro %}",
    "{% generation %}{{ messages[0].content }}{% set z = 1 %}{% endgeneration %}{{ z }}", "{% block a %}x{{ messages | length }}{% endblock %}", "{% block a %}x{% endblock a %}", "{% print 1, 2 %}",
    "{% raw %}{{ x }}{% endraw %}", "{%- raw -%} {{ x }} {%- endraw -%} y", " {% raw %} a {% endraw %} \n b", "a {#- c -#} b", "a\n  {# c #}\nb", "a {# c #}\n b", "{# {{ }} #}x", "{# open",
    "a\n  {%+ if true %}b{% endif +%}\nc", "a  {%- if true -%}  b  {%- endif -%}  c", "  {{- 1 -}}  x", "x\n{{ 1 }}\ny\n", "x\n\n", "{{ 1 }}\n", "\r\na\rb\n{% if true %}\r\nc{% endif %}", "{{ '%}' }}{% if '%}' %}x{% endif %}",
    "{{ {'a': {'b': 1}} }}", "{{ {'a': {'b': 1}}}}", "{ {x} { % }", "{{ '}}' }}", "{{ \"a\nb\" }}", "{% if 1 %}a{% elif 2 %}b{% else %}c{% endif %}{% if 0 %}a{% elif 2 %}b{% else %}c{% endif %}",
    "{% if x %}{% endif %}{% endif %}", "{% endfor %}", "{% for %}", "{% for i in %}{% endfor %}", "{% for i on x %}{% endfor %}", "{% set %}", "{% set 1 = 2 %}", "{% set true = 1 %}", "{% if %}{% endif %}", "{% foo %}",
    "{% include 'x' %}", "{% import 'x' as y %}", "{% extends 'x' %}", "{% break %}", "{% for i in [1] %}{% macro f() %}{% break %}{% endmacro %}{% endfor %}", "{% autoescape false %}{{ '<' }}{% endautoescape %}",
    "{{ 'a' | nofilter }}", "{{ 'a' is notest }}", "{% if false %}{{ 'a' | nofilter }}{% endif %}x", "{% set a = [] %}{% set _ = a.append(1) %}{{ a }}", "{% set d = {} %}{% set _ = d.update({'a': 1}) %}{{ d }}{{ d.pop('a') }}{{ d }}",
    "{% set a = [3, 1] %}{% set b = a %}{% set _ = b.insert(0, 9) %}{{ a }}{{ a.pop() }}{{ a }}{% set _ = a.extend([7]) %}{{ b }}{% set _ = a.sort() %}{{ a }}{% set _ = a.reverse() %}{{ a }}{% set _ = a.clear() %}{{ a }}",
    "{% set g = [1, 2] | map('string') %}{{ g | list }}{{ g | list }}", "{% set g = [1] | select('string') %}{{ 'yes' if g else 'no' }}", "{% for role, ms in messages | groupby('role') %}{{ role }}{{ ms | length }}{% endfor %}",
    "{% for g in messages | groupby('role') %}{{ g.grouper }}{{ g.list | length }}{% endfor %}", "{%- for m in messages %}\n    {%- if m.role == 'user' %}\n        {{- 'U: ' + m.content }}\n    {%- endif %}\n{%- endfor %}\n",
    "{% for m in messages %}\n    {% if loop.first %}\n  first\n    {% endif %}\n{% endfor %}\n", "{% set x = missing %}{{ x is defined }}", "{% macro m() %}{{ messages | length }}{% endmacro %}{{ m() }}",
    "{% for x in [1, 2] %}{% for y in [3] %}{{ loop.index }}{{ x }}{{ y }}{% endfor %}{{ loop.index }}{% endfor %}", "{% set loop = 1 %}", "{{ loop }}", "{% for i in [1] %}{{ i }}{% endfor %}{{ i is defined }}",
]

# --- conversations

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string", "description": "Where, e.g. \"Zürich\""}, "days": {"type": ["integer", "null"], "default": 1, "enum": [1, 2]},
              "o": {"type": "object", "properties": {"k": {"type": "array", "items": {"type": "number"}}}, "required": ["k"]}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "The weather <b> & more", "parameters": PARAMETERS}},
         {"type": "function", "function": {"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}}}]


def call(name, arguments, id):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def turn(role, content, **more):
    return {"role": role, "content": content, **more}


U, A = (lambda text, **m: turn("user", text, **m)), (lambda text, **m: turn("assistant", text, **m))
S, T = (lambda text: turn("system", text)), (lambda text, id="call00001", name="get_weather": turn("tool", text, tool_call_id=id, name=name))
WEATHER = call("get_weather", {"city": "Zürich", "days": 2, "o": {"k": [1, 2.5, None, True]}}, "call00001")
CHATS = {
    "plain": [U("Hi")], "system": [S("Be  terse.\n"), U(" Hi there ")], "turns": [U("a"), A("b"), U("c"), A("d"), U("e")], "system turns": [S("s"), U("a"), A("b\n\n"), U("c")],
    "unicode": [U("日本語 😀 'q' \"d\" <|im_end|> {{ x }} \u2028"), A("é\\n</think>x"), U("")], "ends with an answer": [U("a"), A("b")],
    "call": [U("w?"), A("", tool_calls=[WEATHER]), T("{\"t\": 20}")], "call with text": [S("s"), U("w?"), A("I look.", tool_calls=[WEATHER]), T("rain"), A("It rains."), U("ok")],
    "two calls": [U("w?"), A(None, tool_calls=[WEATHER, call("now", {}, "call00002")]), T("r1"), T("r2", "call00002", "now"), A("done"), U("thanks")],
    "arguments as text": [U("w?"), A("", tool_calls=[call("get_weather", "{\"city\": \"Bern\"}", "call00001")]), T("x")],
    "reasoning": [U("a"), A("b", reasoning_content="I think\nso"), U("c"), A("d", reasoning_content="r2"), U("e")],
    "reasoning and call": [U("a"), A("", reasoning_content="hm", tool_calls=[WEATHER]), T("r"), A("ok", reasoning_content="then")], "inline reasoning": [U("a"), A("<think>\nx\n</think>\n\ny"), U("c")],
    "parts": [U([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]), A([{"type": "text", "text": "x"}]), U("y")], "image": [U([{"type": "image"}, {"type": "text", "text": "what?"}])],
    "tool first": [T("x"), U("y")], "two users": [U("a"), U("b")], "developer": [turn("developer", "d"), U("x")], "unknown role": [turn("wizard", "x")], "no content": [U("a"), {"role": "assistant"}],
    "array result": [U("a"), A("", tool_calls=[WEATHER]), T([{"type": "text", "text": "r"}])], "long": [m for i in range(12) for m in (U(f"q{i}"), A(f"a{i}", reasoning_content=f"t{i}"))] + [U("end")],
}
SETTINGS = [{}, {"enable_thinking": False}, {"enable_thinking": True, "thinking": True, "reasoning_effort": "high"}, {"add_generation_prompt": False}]


def templates(folder):
    """Published templates by name."""
    return {path.name: path.read_text() for path in sorted(pathlib.Path(folder).glob("*.jinja"))} if folder else {}


def main():
    common.arguments(__doc__)
    tally = common.Tally()
    common_part = {"bos": "<s>", "eos": "</s>", "messages": CHATS["call with text"], "tools": TOOLS}
    cases = [("expression", {"source": source, **common_part}) for source in expressions()]
    published = templates(os.environ.get("ONEBIT_TEMPLATES"))
    if not published:
        print("SKIPPED: ONEBIT_TEMPLATES names no folder of templates", file=sys.stderr)
    for name, source in published.items():
        for (chat, messages), extra, tools in itertools.product(CHATS.items(), SETTINGS, (None, TOOLS)):
            cases.append((f"{name}, {chat}, {extra}{', tools' if tools else ''}", {"source": source, "bos": "<s>", "eos": "</s>", "messages": messages, "tools": tools, "extra": extra}))
    answers, texts = ours([case for _, case in cases]), 0
    for (name, case), got in zip(cases, answers, strict=True):
        text, error = reference(case)
        if text is not None and any(mark in text for mark in NO_TEXT):
            continue
        texts += text is not None
        label = f"{name}: {case['source']}" if name == "expression" else name
        if text is None:
            tally.check(label, "error" in got, f"\n   should fail: {error}\n   got: {got.get('text', '')[:300]!r}")
        else:
            tally.check(label, got.get("text") == text or case["source"] in REFUSED, difference(text, got))
    print(f"{len(published)} published templates; {texts} renderings succeed in Jinja2")
    tally.end()


# No numbers are complex here, and ranges do not remember where they would have ended.
REFUSED = {"{{ (-3) ** (2.5) }}", "{{ (range(4))[5:1:-2] }}", "{{ (range(4))[3:1] }}"}


def difference(want, got):
    if "error" in got:
        return f"\n   want {want[:300]!r}\n   got an error: {got['error'][:300]}"
    at = len(os.path.commonprefix([want, got["text"]]))
    begin = max(at - 60, 0)
    return f"\n   want {want[begin:at + 120]!r}\n   got  {got['text'][begin:at + 120]!r}"


if __name__ == "__main__":
    main()
