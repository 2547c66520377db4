"""Questions about the banks of one access."""

from explainers.stories.bank_conflicts.frames import BankSide
from explainers.story.glossary import count
from explainers.story.stage import Question
from kernels.trace.memory import model


def banks(side: BankSide) -> list[Question]:
    """The lanes in the first wavefront of a side's first access, and the bank of a lane's word."""
    access = side["accesses"][0] if side["accesses"] else None
    if access is None or not access["cells"]:
        return []
    first = [cell for cell in access["cells"] if cell[2] == 0]
    lanes, words = len({cell[0] for cell in first}), len({cell[3] for cell in first})
    used = len({cell[1] for cell in access["cells"]})
    why = (
        f"The first wavefront serves {count(lanes, 'lane')} of {access['active']} with "
        f"{count(words, 'different word')}, at most one of each bank. The access takes "
        f"{count(access['wavefronts'], 'wavefront')}, at best {access['ideal']}."
    )
    text = (
        f"{count(access['active'], 'lane')} ask for {access['bytes']} bytes each of {access['tensor']}, in {used} of "
        "the 32 banks. How many lanes does the first wavefront serve?"
    )
    veils = ("sentence", "strip")
    served = Question("first_wave", text, "number", lanes, why, unit="lanes", view="banks", veils=(*veils, "picture"))
    lane = access["cells"][-1][0]
    word = min(cell[3] for cell in access["cells"] if cell[0] == lane)
    bank = word % model.BANKS
    wanted = len({cell[3] for cell in access["cells"] if cell[1] == bank})
    where = f", with {side['name']}" if side["name"] else ""
    text = (
        f"Lane {lane} asks for {access['tensor']} from byte {word * model.WORD:,} on{where}. Click any word of the "
        "bank that serves that byte."
    )
    why = (
        f"Bank {bank}: byte {word * model.WORD:,} is in word {word:,}, and {word:,} modulo {model.BANKS} is {bank}. "
        f"The access wants {count(wanted, 'different word')} of it."
    )
    return [served, Question("bank_of", text, "click", {"side": 0, "bank": bank}, why, view="memory", veils=veils)]
