"""CSV files: rows are read as they are, and no row is invented or lost in silence."""

from __future__ import annotations

import csv
import io
import random

import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.loading.columns import ColumnSelection
from airflow_provider_assistant.loading.sources import open_source

IDS = ColumnSelection(("question", "answer"), ("id",))
WORDS = ["Wie lange dauert der Versand nach Polen", "we ship within two days", "你好 请稍等 谢谢 再见", "да нет товар"]


def read(path, wanted=IDS, **options):
    """Return the rows that can be read, the problems of the others, and what is left out by reason."""
    rows, problems = [], []
    with open_source(str(path), wanted, csv_options=options, allow_empty=True) as source:
        for batch in source.batches():
            for position, values in enumerate(zip(*batch.columns.values(), strict=True)):
                if position in batch.problems:
                    problems.append(f"{batch.place(position)} {batch.problems[position]}")
                else:
                    rows.append(dict(zip(batch.columns, values, strict=True)))
        left_out = {left_out.reason: left_out.count for left_out in source.account.left_out}
    return rows, problems, left_out


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


def test_what_a_csv_writer_writes_is_read_as_it_is(tmp_path):
    path = tmp_path / "faq.csv"
    for seed in range(40):
        table = Table(seed)
        path.write_text(table.text, newline="")
        wanted = ColumnSelection(tuple(table.rows[0]))
        rows, problems, _left_out = read(path, wanted, delimiter=table.delimiter)
        assert (rows, problems) == (table.rows, []), seed


@pytest.mark.promise(
    "loads", "A CSV file with a broken quote is refused or reported: no row is invented or lost in silence."
)
def test_a_broken_quote_neither_invents_nor_hides_rows(tmp_path):
    path = tmp_path / "faq.csv"
    refused = 0
    for seed in range(150):
        table = Table(seed)
        path.write_text(table.broken(flaws=1), newline="")
        try:
            rows, problems, left_out = read(path, delimiter=table.delimiter)
        except AssistantInputError:
            refused += 1
            continue
        ids = {row["id"] for row in table.rows}
        found = {row["id"].strip('" ') for row in rows}
        assert found <= ids, f"{seed}: invented {found - ids}"
        reported = len(problems) + sum(left_out.values())
        assert len(ids - found) <= reported, f"{seed}: lost {ids - found}"
    assert refused > 120


HEAD = "id,question,answer\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('1,Q,A\n2,"He said "hi" to\nme, and left, ok\nbye",A\n3,Q,A\n', 3),
        ('1,Q,A\n2,Q,"He said "\nme, and, left\n" bye"\n3,Q,A\n', 5),
        ('"He said "\nme, and, left\n" bye",Q,A\n', 2),
        ('1,Q,A\n2, "Q, and\nmore",A\n3,Q,A\n', 3),
        ('1,"Q,A\n2,Q,A\n3,Q",A\n4,Q,A\n', 2),
        ('1,Q,"A\n2,Q,A"\n3,Q,A\n', 2),
        ('1,Q,A\n2,see "this, A\n', 3),
        ('1,"He said \\"hi\\"",A\n', 2),
        ('1,Q,A\n2,Q,"A\n3,Q,A\n', 3),
        ('1,Q,A\n2,"two\nlines"\n3,Q,A\n', 3),
    ],
)
def test_a_file_whose_rows_are_not_certain_is_refused_with_the_line(text, line, tmp_path):
    (tmp_path / "faq.csv").write_text(HEAD + text)
    with pytest.raises(AssistantInputError, match=rf"faq\.csv' cannot be read: line {line}: ") as caught:
        read(tmp_path / "faq.csv")
    assert "--escape" in str(caught.value)


def test_rows_that_are_certain_cost_only_themselves(tmp_path):
    path = tmp_path / "faq.csv"
    lines = ['1,5" pipe,"a ""b""\nc"', '2,"Q","A",too,"many"', "3,Q", '4,say "hi" twice,A,,', '5,"x\ny, z\n1,000",A']
    path.write_text(HEAD + "\n".join(lines))
    rows, problems, left_out = read(path)
    assert [(row["id"], row["question"], row["answer"]) for row in rows] == [
        ("1", '5" pipe', 'a "b"\nc'),
        ("4", 'say "hi" twice', "A"),
        ("5", "x\ny, z\n1,000", "A"),
    ]
    assert problems[0].startswith(f"{path}, line 4 has 5 cells, but the first line has 3")
    assert problems[1].startswith(f"{path}, line 5 has 2 cells")
    assert len(problems) == 2
    assert left_out == {}


def test_rows_that_may_be_in_a_cell_are_counted(tmp_path):
    text = 'id,question,answer\nx,"a,b\ny,c,d\nz,e",f\nw,"k\nl",m\n'
    (tmp_path / "faq.csv").write_text(text)
    rows, problems, left_out = read(tmp_path / "faq.csv")
    assert ([row["question"] for row in rows], problems) == (["a,b\ny,c,d\nz,e", "k\nl"], [])
    assert left_out == {"may be in a cell whose quote is missing": 1}
    # With values like those of other rows, it is almost certain.
    (tmp_path / "faq.csv").write_text(text.replace("x,", "A-1,").replace("y,", "A-2,"))
    with pytest.raises(AssistantInputError, match="line 2: a line of a cell looks like a row"):
        read(tmp_path / "faq.csv")


def test_blank_rows_and_repeated_headers_are_left_out_and_counted(tmp_path):
    blank = ["", " ", ",,", " , ,\t", '"","",""', ",,,,,", "\u00a0,,", "\x1a"]
    names = ["id,question,answer", '"id","question","answer"', "\ufeffid,question,answer", "id,question,answer,,"]
    (tmp_path / "faq.csv").write_text(",,\n" + HEAD + "\n".join([*blank, "1,Q,A", *names, "2,Q,A,,", *blank]))
    rows, problems, left_out = read(tmp_path / "faq.csv")
    assert ([row["id"] for row in rows], problems) == (["1", "2"], [])
    # An empty line is no row.
    assert left_out == {"is blank": 2 * (len(blank) - 1), "repeats the line of column names": len(names)}


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("a.tsv", "id\tquestion\tanswer\n1\tQ,\tA", {}),
        ("A.TAB", "id\tquestion\tanswer\r1\tQ,\tA", {}),
        ("a.txt", "id|question|answer\n1|Q,|A", {"format": "csv", "delimiter": "|"}),
        ("a.csv", "sep=;\nid;question;answer\n1;Q,;A", {}),
        ("A.CSV", '\ufeff"SEP=\t"\r\nid\tquestion\tanswer\r\n1\tQ,\tA', {}),
        ("a.csv", "sep=;\n'sales'\nid;question;answer\n1;Q,;A", {"skip_lines": "2", "delimiter": ";"}),
        ("a.csv", "id||question||answer\n1||'Q,'||A", {"delimiter": "||", "quote": "'"}),
        ("a.csv", "id::question::answer\n1::Q,::A", {"delimiter": "::"}),
        ("a.csv", "id\x01question\x01answer\n1\x01Q,\x01A", {"delimiter": "\\x01"}),
        ("a.csv", "1,'Q,',A\n", {"header": ["id", "question", "answer"], "quote": "'"}),
        ("a.csv", 'id, question, answer\n1, "Q,", A\n', {"skip_blanks_after_delimiter": True}),
        ("a.csv", "id,question,answer\n1,Q\\,,A\n", {"escape": "\\"}),
        ("a.csv", "id,question,answer,,\n1,Q\\,,A,,\n", {"escape": "\\", "quote": None}),
    ],
)
def test_formats_of_other_programs(name, text, options, tmp_path):
    (tmp_path / name).write_text(text, newline="")
    assert read(tmp_path / name, **options) == ([{"question": "Q,", "answer": "A", "id": "1"}], [], {})


def test_columns_without_names_are_numbered(tmp_path):
    (tmp_path / "a.csv").write_text("\n1,Q,A\n2,Q2,A2\n")
    rows, *_ = read(tmp_path / "a.csv", ColumnSelection(("2",), ("1",)), header="False")
    assert rows == [{"2": "Q", "1": "1"}, {"2": "Q2", "1": "2"}]


def test_quotes_and_backslashes_of_other_programs(tmp_path):
    rows = ["1\tC:\\new\t5\" and 'x\n", '2\t"open\t\\N\n', "3\t\\N\t\\N\\\n"]
    (tmp_path / "a.tsv").write_text("id\tquestion\tanswer\n" + "".join(rows))
    plain, problems, _ = read(tmp_path / "a.tsv", quote="", null_texts="\\N")
    assert [row["question"] for row in plain] == ["C:\\new", '"open', None]
    assert ([row["answer"] for row in plain], problems) == (["5\" and 'x", None, "\\N\\"], [])
    (tmp_path / "b.tsv").write_text("id\tquestion\tanswer\n1\t\\N\ta\\\nb\\\tc\\\\\n2\tN\t\\\\N\n")
    escaped, *_ = read(tmp_path / "b.tsv", quote="", escape="\\", null_texts=["\\N"])
    assert [(row["question"], row["answer"]) for row in escaped] == [(None, "a\nb\tc\\"), ("N", "\\N")]


@pytest.mark.parametrize("delimiter", ";\t\x01")
@pytest.mark.parametrize("names", ["id,question,answer", "x,y"])
def test_another_delimiter_is_named(delimiter, names, tmp_path):
    (tmp_path / "a.csv").write_text(names.replace(",", delimiter) + "\n1\n")
    with pytest.raises(AssistantInputError, match="--delimiter") as caught:
        read(tmp_path / "a.csv")
    assert f"csv_options={{'delimiter': {delimiter!r}}}" in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "question\u00a0",
        " question",
        "que\u200bstion",
        "\ufeffquestion",
        "Question",
        "question\u2060 ",
        "\u00adquestion",
    ],
)
def test_names_that_only_look_like_a_column_are_shown(name, tmp_path):
    (tmp_path / "a.csv").write_text(f"id,{name},answer\n1,Q,A\n")
    with pytest.raises(AssistantInputError, match="has no column question; it has id, ") as caught:
        read(tmp_path / "a.csv")
    assert f"The name {name!r} looks like 'question'" in str(caught.value)
