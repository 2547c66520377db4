"""The clock and the dense views that follow it: Streamlit components whose JavaScript steps without a server trip."""
