"""CSV files: rows are read as they are, and no row is invented or lost in silence."""

from __future__ import annotations

import ast
import csv
import io
import random
import re

import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from tests.unit.tables.reading import columns, read, rows_of

WANTED = columns("question", "answer", key=["id"])
HEAD = "id,question,answer\n"
WORDS = ["Wie lange dauert der Versand nach Polen", "we ship within two days", "你好 请稍等 谢谢 再见", "да нет товар"]


class Table:
    """A table with prose, and the text of a CSV file that a flaw may break."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.delimiter = self.random.choice(",,;\t|")
        names = ["id", "question", "answer", "category", "note"][: self.random.randint(3, 5)]
        self.random.shuffle(names)
        self.rows = []
        for number in range(self.random.randint(4, 25)):
            cells = {"id": f"FAQ-{100 + number}", "category": "faq", "note": ""}
            cells |= {"question": self.prose(), "answer": self.prose()}
            self.rows.append({name: cells[name] for name in names})
        # Python's writer puts quotes around a carriage return only if lines end in one.
        file = io.StringIO()
        quoting = self.random.choice([csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
        writer = csv.DictWriter(file, names, delimiter=self.delimiter, quoting=quoting, lineterminator="\r\n")
        writer.writeheader()
        self.first = len(file.getvalue())
        writer.writerows(self.rows)
        self.text = file.getvalue()

    def prose(self):
        """Return words with delimiters, line breaks and quotes in between."""
        words = self.random.choice(WORDS).split()
        text = " ".join(self.random.choices(words, k=self.random.randint(1, 8)))
        for mark in (self.delimiter, f"{self.delimiter} ", "\n", "\r\n", "\r", ' "quoted" ', ' 5" ', ' ""'):
            if self.random.random() < 0.15:
                text = text.replace(" ", mark, self.random.randint(1, 3))
        return text

    def broken(self, flaws):
        """Return the text with quotes that are missing or too many."""
        text = self.text
        for _ in range(flaws):
            quotes = [place for place in range(self.first, len(text)) if text[place] == '"']
            edges = [place for place in range(self.first, len(text)) if text[place] in f"{self.delimiter}\r\n "]
            if quotes and self.random.random() < 0.5:
                place = self.random.choice(quotes)
                text = text[:place] + text[place + 1 :]
            else:
                place = self.random.choice(edges) + self.random.choice([0, 1])
                text = text[:place] + '"' + text[place:]
        return text


def test_a_file_that_a_csv_writer_writes_is_read_exactly(tmp_path):
    path = tmp_path / "faq.csv"
    for seed in range(150):
        table = Table(seed)
        path.write_text(table.text, newline="")
        assert rows_of(path, columns(*table.rows[0]), csv_options={"delimiter": table.delimiter}) == table.rows, seed


@pytest.mark.promise(
    "loads", "A CSV file with a broken quote is refused or reported: no row is invented or lost in silence."
)
@pytest.mark.parametrize("flaws", [1, 2, 3])
def test_a_broken_quote_neither_invents_nor_hides_rows(flaws, tmp_path):
    path = tmp_path / "faq.csv"
    refused = 0
    for seed in range(100):
        table = Table(seed * 3 + flaws)
        path.write_text(table.broken(flaws), newline="")
        try:
            rows, problems, notes = read(path, WANTED, csv_options={"delimiter": table.delimiter})
        except AssistantInputError:
            refused += 1
            continue
        ids = {row["id"] for row in table.rows}
        found = {row["id"].strip('" \r\n') for row in rows}
        assert found <= ids, f"{seed}: invented {found - ids}"
        assert len(ids - found) <= len(problems) + sum(notes.values()), f"{seed}: lost {ids - found}"
    assert refused > 80


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('1,Q,A\n2,"He said "hi" to\nme, and left, ok\nbye",A\n3,Q,A\n', 3),
        ('1,Q,A\n2,Q,"He said "\nme, and, left\n" bye"\n3,Q,A\n', 5),
        ('1,Q,A\n2, "Q, and\nmore",A\n3,Q,A\n', 4),
        ('1,"Q,A\n2,Q,A\n3,Q",A\n4,Q,"A\n', 5),
        ('1,"He said \\"hi\\"",A\n', 2),
        ('1,Q,A\n2,Q,"A\n3,Q,A\n', 3),
    ],
)
def test_a_file_whose_rows_are_not_certain_is_refused_with_the_line(text, line, tmp_path):
    (tmp_path / "faq.csv").write_text(HEAD + text)
    with pytest.raises(AssistantInputError, match=rf"faq\.csv' cannot be read: line {line}: .*escapechar"):
        read(tmp_path / "faq.csv", WANTED)


def test_a_header_whose_quotes_are_broken_is_refused(tmp_path):
    (tmp_path / "faq.csv").write_text('\n"id,question\n1,Q\n')
    with pytest.raises(AssistantInputError, match="cannot be read: line 2: a quote is opened and not closed"):
        read(tmp_path / "faq.csv", WANTED)


def test_quotes_of_the_header_are_not_those_of_the_first_row(tmp_path):
    (tmp_path / "faq.csv").write_text('"id","question","answer"\n1,Q\n2,Q,A\n')
    rows, problems, _ = read(tmp_path / "faq.csv", WANTED)
    assert (len(rows), len(problems)) == (1, 1)


def test_a_row_of_another_width_is_a_problem_of_this_row(tmp_path):
    path = tmp_path / "faq.csv"
    lines = ['1,5" pipe,"a ""b""\nc"', '2,"Q","A",too,"many"', "3,Q", '4,say "hi" twice,A,,', '5,"x\ny, z\n1,000",A']
    path.write_text(HEAD + "\n".join(lines))
    rows, problems, notes = read(path, WANTED)
    assert [(row["id"], row["question"], row["answer"]) for row in rows] == [
        ("1", '5" pipe', 'a "b"\nc'),
        ("4", 'say "hi" twice', "A"),
        ("5", "x\ny, z\n1,000", "A"),
    ]
    assert problems[0].startswith(f"{path}, line 4: has 5 cells in 3 columns")
    assert problems[1].startswith(f"{path}, line 5: has 2 cells")
    assert (len(problems), notes) == (2, {})


@pytest.mark.parametrize(
    ("text", "count"),
    [('x,"a,b\ny,c,d\nz,e",f\nw,"k\nl",m\n', 2), ('1,Q,"A\n2,Q,A"\n3,Q,A\n', 1), ('"1,Q,A\n2",Q,A\n', 1)],
)
def test_rows_that_may_be_in_a_cell_are_reported(text, count, tmp_path):
    (tmp_path / "faq.csv").write_text(HEAD + text)
    _rows, problems, notes = read(tmp_path / "faq.csv", WANTED)
    assert (problems, notes) == ([], {"may be in a cell whose quote is missing": count})


def test_blank_rows_and_repeated_headers_are_left_out_and_counted(tmp_path):
    blank = ["", " ", ",,", " , ,\t", '"","",""', ",,,,,", "\u00a0,,", "\x1a"]
    names = ["id,question,answer", '"id","question","answer"', "\ufeffid,question,answer", "id,question,answer,,"]
    (tmp_path / "faq.csv").write_text(",,\n" + HEAD + "\n".join([*blank, "1,Q,A", *names, "2,Q,A,,", *blank]))
    rows, problems, notes = read(tmp_path / "faq.csv", WANTED)
    assert ([row["id"] for row in rows], problems) == (["1", "2"], [])
    # An empty line is not a row.
    assert notes == {"is blank": 2 * (len(blank) - 1), "repeats the line of column names": len(names)}


def test_cells_are_text_as_it_stands(tmp_path):
    (tmp_path / "a.csv").write_text('question,answer\n007,NULL\n1e3,NaN\ntrue,""\n2026-01-01, x \n')
    rows = rows_of(tmp_path / "a.csv", columns("question", "answer"))
    assert [[*row.values()] for row in rows] == [["007", "NULL"], ["1e3", "NaN"], ["true", ""], ["2026-01-01", " x "]]


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("a.tsv", "id\tquestion\tanswer\n1\tQ,\tA", {}),
        ("A.TAB", "id\tquestion\tanswer\r1\tQ,\tA", {}),
        ("A.CSV", '\ufeff"id","question","answer"\r\n1,"Q,",A', {}),
        ("a.csv", "sep=;\n'sales'\nid;question;answer\n1;Q,;A", {"skip_lines": "2", "delimiter": ";"}),
        ("a.csv", "id|question|answer\n1|'Q,'|A", {"delimiter": "|", "quotechar": "'"}),
        ("a.csv", "id\x01question\x01answer\n1\x01Q,\x01A", {"delimiter": "\\x01"}),
        ("a.csv", "1,'Q,',A\n", {"header": ["id", "question", "answer"], "quotechar": "'"}),
        ("a.csv", 'id, question, answer\n1, "Q,", A\n', {"skipinitialspace": True}),
        ("a.csv", "id,question,answer\n1,Q\\,,A\n", {"escapechar": "\\"}),
        ("a.csv", "id,question,answer,,\n1,Q\\,,A,,\n", {"escapechar": "\\", "quotechar": None}),
        ("a.csv", 'id,question,answer\n1,"Q,",A\n', {"escapechar": "\\", "doublequote": "false"}),
        ("a.csv", 'id,question,answer\n1,"Q\\"",A\n', {"escapechar": "\\", "doublequote": "false"}),
        ("a.csv", 'id,question,answer\n1,"\\"\\"Q\\"","A"\n', {"escapechar": "\\", "doublequote": "false"}),
        ("a.csv", "id,question,answer\n1,Q\xdf,A\n", {"encoding": "latin-1"}),
    ],
)
def test_formats_of_other_programs(name, text, options, tmp_path):
    (tmp_path / name).write_bytes(text.encode(options.get("encoding", "utf-8")))
    rows = rows_of(tmp_path / name, WANTED, csv_options=options)
    assert rows in ([{"question": q, "answer": "A", "id": "1"}] for q in ("Q,", "Q\xdf", 'Q"', '""Q"'))


def test_columns_without_names_are_numbered(tmp_path):
    (tmp_path / "a.csv").write_text("\n1,Q,A\n2,Q2,A2\n")
    rows = rows_of(tmp_path / "a.csv", columns("2", key=["1"]), csv_options={"header": "False"})
    assert rows == [{"2": "Q", "1": "1"}, {"2": "Q2", "1": "2"}]


def test_no_quotes_and_null_texts(tmp_path):
    rows = ["1\tC:\\new\t5\" and 'x\n", '2\t"open\t\\N\n', "3\t\\N\t\\N\\\n"]
    (tmp_path / "a.tsv").write_text("id\tquestion\tanswer\n" + "".join(rows))
    found = rows_of(tmp_path / "a.tsv", WANTED, csv_options={"quotechar": "", "null_texts": "\\N"})
    assert [(row["question"], row["answer"]) for row in found] == [
        ("C:\\new", "5\" and 'x"), ('"open', None), (None, "\\N\\"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"quote": "'"}, "there is no option 'quote'.*The options are delimiter, quotechar, escapechar"),
        ({"delimiter": "||"}, "delimiter: "),
        ({"delimiter": "\n"}, "delimiter"),
        ({"delimiter": '"'}, "delimiter, quotechar"),
        ({"encoding": "rot13"}, "encoding: Python has no encoding"),
        ({"header": []}, "header: "),
        ({"skip_lines": -1}, "skip_lines: "),
        ({"escapechar": "\\", "null_texts": ["\\N"]}, "a text of null_texts begins with escapechar"),
    ],
)
def test_options_that_cannot_be_used_are_named(options, part, tmp_path):
    (tmp_path / "a.csv").write_text(HEAD + "1,Q,A\n")
    with pytest.raises(AssistantInputError, match=f"csv_options cannot be used: {part}"):
        read(tmp_path / "a.csv", WANTED, csv_options=options)


@pytest.mark.parametrize("delimiter", ";\t\x01")
def test_another_delimiter_is_named(delimiter, tmp_path):
    (tmp_path / "a.csv").write_text(HEAD.replace(",", delimiter) + "1\n")
    with pytest.raises(AssistantInputError, match="--csv-option 'delimiter=") as caught:
        read(tmp_path / "a.csv", WANTED)
    assert f"csv_options={{'delimiter': {delimiter!r}}}" in str(caught.value)


@pytest.mark.parametrize("delimiter", ";,\t|")
@pytest.mark.parametrize("given", [{}, {"delimiter": ";"}, {"delimiter": ","}])
def test_a_first_line_for_spreadsheets_is_refused_with_the_options_that_read_the_file(delimiter, given, tmp_path):
    rows = f"{HEAD}1,Q,A\n".replace(",", delimiter)
    (tmp_path / "a.csv").write_text(f"sep={delimiter}\n{rows}")
    with pytest.raises(AssistantInputError, match="it tells spreadsheets the delimiter") as caught:
        read(tmp_path / "a.csv", WANTED, csv_options=given)
    options = ast.literal_eval(re.search(r"csv_options=({.*?})", caught.value.todo)[1])
    assert [row["question"] for row in rows_of(tmp_path / "a.csv", WANTED, csv_options=options)] == ["Q"]


@pytest.mark.parametrize("name", ["question\u00a0", " question", "que\u200bstion", "\ufeffquestion", "\u00adquestion"])
def test_names_that_only_look_like_a_column_are_shown(name, tmp_path):
    (tmp_path / "a.csv").write_text(f"id,{name},answer\n1,Q,A\n")
    with pytest.raises(AssistantInputError, match="has no column question; it has id, ") as caught:
        read(tmp_path / "a.csv", WANTED)
    assert repr(name) in str(caught.value)
