"""What other readers find in the documents of a folder: reference.py FOLDER writes FOLDER/reference.json.

PDF by pdfplumber and by pdfium, workbooks by openpyxl. Of these it also makes tables and workbooks of its own, in
every encoding they come in, whose content is known without a reader. Done once: each reader here is slow.
"""
import csv
import datetime
import io
import itertools
import json
import multiprocessing
import pathlib
import signal
import sys
import warnings

PAGES = 8
SECONDS = 20
CELLS = 20_000
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "cp1251", "koi8-r"]
DELIMITERS = [";", ",", "\t"]


def by_pdfplumber(path):
    import pdfplumber

    with pdfplumber.open(path) as pdf:
        return "\n".join(page.extract_text() or "" for page in pdf.pages[:PAGES])


def by_pdfium(path):
    import pypdfium2

    pdf = pypdfium2.PdfDocument(path)
    pages = range(min(PAGES, len(pdf)))
    return "\n".join(pdf[page].get_textpage().get_text_bounded() for page in pages)


def shown(value):
    """A cell as documents/src/sheet/cell.rs shows it."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return format(value, ".15g")
    if isinstance(value, datetime.datetime):
        return str(value.date() if value.time() == datetime.time() else value)
    return str(value)


def rows_of(path):
    import openpyxl

    rows = []
    for sheet in openpyxl.load_workbook(path, data_only=True).worksheets:
        for row in sheet.iter_rows(values_only=True):
            cells = [shown(cell) for cell in row if cell is not None]
            if cells:
                rows.append(cells)
            if sum(map(len, rows[-1:])) > CELLS or len(rows) > CELLS:
                return rows
    return rows


def in_time(function, path):
    def over(*_):
        raise TimeoutError

    signal.signal(signal.SIGALRM, over)
    signal.alarm(SECONDS)
    try:
        return function(path)
    except Exception:
        return None
    finally:
        signal.alarm(0)


def of_file(path):
    warnings.simplefilter("ignore")
    if path.suffix == ".pdf":
        texts = {"pdfplumber": in_time(by_pdfplumber, path), "pdfium": in_time(by_pdfium, path)}
    else:
        rows = in_time(rows_of, path)
        texts = {"openpyxl": rows and "\n".join("\t".join(row) for row in rows)}
    return {name: text for name, text in texts.items() if text}


def write_csv(path, rows, encoding, delimiter):
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=delimiter).writerows(rows)
    path.write_bytes(out.getvalue().encode(encoding))


def write_xlsx(path, rows):
    import openpyxl

    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)


def make(folder, tables):
    """Files whose content is `tables`: name to rows."""
    made = folder / "made"
    made.mkdir(exist_ok=True)
    kinds = itertools.product(ENCODINGS, DELIMITERS)
    for (name, rows), (encoding, delimiter) in zip(tables, itertools.cycle(kinds)):
        known = {"known": "\n".join("\t".join(row) for row in rows)}
        suffix = "tsv" if delimiter == "\t" else "csv"
        try:
            path = made / f"{name}.{encoding}.{suffix}"
            write_csv(path, rows, encoding, delimiter)
            yield path, known
        except UnicodeEncodeError:
            path.unlink(missing_ok=True)
        if encoding == "koi8-r":
            path = made / f"{name}.xlsx"
            write_xlsx(path, rows)
            yield path, known


def rows_of_text(text):
    """Lines of words as rows of cells, without what XML and tables can't carry."""
    text = "".join(c for c in text if c in "\n " or c.isprintable())
    rows = [line.split() for line in text.splitlines() if len(line.split()) > 2]
    return [row[:8] for row in rows if not any(cell.startswith(("=", '"')) for cell in row)]


def is_russian(text):
    letters = sum("а" <= c.lower() <= "я" for c in text)
    return letters > 2_000 and letters * 2 > sum(c.isalpha() for c in text)


def main(folder):
    found = [path for path in sorted(folder.glob("*/*")) if path.suffix in (".pdf", ".xlsx", ".xlsm")]
    found = [path for path in found if path.parent.name != "made"]
    with multiprocessing.Pool() as pool:
        texts = dict(zip(found, pool.map(of_file, found, chunksize=1)))
    tables = []
    for path, read in texts.items():
        text = read.get("openpyxl") or read.get("pdfium", "")
        rows = [row.split("\t") for row in text.splitlines()] if "openpyxl" in read else rows_of_text(text)
        rows = [[cell for cell in row if cell.strip() and "\t" not in cell] for row in rows]
        rows = [row for row in rows if row]
        if len(rows) >= 10 and ("openpyxl" in read or is_russian(text)):
            tables.append((path.stem, rows))
    for _ in range(5 if tables and len(tables) < 60 else 1):
        texts.update(make(folder, tables))
        tables = tables[1:] + tables[:1]
    result = {str(path.relative_to(folder)): read for path, read in texts.items()}
    (folder / "reference.json").write_text(json.dumps(result, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
