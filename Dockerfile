# The planner as a page for everybody, as a hosted Space runs it:
#   docker build -t trainplan . && docker run --rm -p 7860:7860 trainplan
# Nobody's documents are kept; nothing is read but what ships.
FROM python:3.12-slim
RUN useradd --create-home --uid 1000 planner
WORKDIR /home/planner/trainplan
COPY --chown=planner . .
RUN pip install --no-cache-dir --disable-pip-version-check '.[serve]' && rm -rf build
USER planner
ENV HOME=/home/planner
EXPOSE 7860
HEALTHCHECK CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:7860/openapi.json', timeout=5)"]
CMD ["trainplan", "serve", "--host", "0.0.0.0", "--port", "7860"]
